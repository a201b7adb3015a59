package router

import (
	"cmp"
	"slices"

	"github.com/replay-llm/replay/sim"
)

// Snapshot is what a KV router knows at one instant, for tests and debugging.
// Lists by worker are in order of id.
type Snapshot struct {
	Pending      []Pending     `json:"pending"` // in the order in which they would be placed
	ActiveBlocks []WorkerCount `json:"active_blocks_by_worker"`
	ActiveTokens []WorkerCount `json:"active_tokens_by_worker"`
	Indexer      IndexerCounts `json:"indexer"`
}

// Pending is a request held back.
type Pending struct {
	Request sim.RequestID `json:"request"`
	Overlap []WorkerCount `json:"overlap_blocks_by_worker"`
}

// WorkerCount is a number of blocks or tokens of a worker.
type WorkerCount struct {
	Worker sim.WorkerID `json:"worker"`
	Count  int64        `json:"count"`
}

// IndexerCounts says how many blocks the index knows. Without Options.Exact it
// knows the blocks of prompts only, not those that engines generate.
type IndexerCounts struct {
	Total    int64         `json:"total_cached_blocks"`
	ByWorker []WorkerCount `json:"cached_blocks_by_worker"` // that a query can find; workers with none are left out
}

// Snapshot says what the router knows now. Workers that have left are included.
func (r *KV) Snapshot(now sim.Time) (Snapshot, error) {
	at, err := instant(now)
	if err != nil {
		return Snapshot{}, err
	}
	var s Snapshot
	for _, h := range r.queue.heap.Sorted() {
		p := Pending{Request: h.Value.request.ID}
		for _, c := range h.Value.overlap {
			p.Overlap = append(p.Overlap, WorkerCount{c.worker, int64(c.blocks)})
		}
		slices.SortFunc(p.Overlap, func(a, b WorkerCount) int { return cmp.Compare(a.Worker, b.Worker) })
		s.Pending = append(s.Pending, p)
	}
	for w := range r.workers.known {
		id := sim.WorkerID(w)
		s.ActiveBlocks = append(s.ActiveBlocks, WorkerCount{id, r.loads.blocks[w]})
		s.ActiveTokens = append(s.ActiveTokens, WorkerCount{id, r.prefills.decayed(at, r.records, id)})
	}
	s.Indexer = r.index.counts()
	return s, nil
}

func (r *residency) counts() IndexerCounts {
	var c IndexerCounts
	for w, n := range r.cached {
		c.Total += n
		if n > 0 {
			c.ByWorker = append(c.ByWorker, WorkerCount{sim.WorkerID(w), n})
		}
	}
	return c
}

// counts adds up the ranks of a worker.
func (x *treeIndex) counts() IndexerCounts {
	c := IndexerCounts{Total: int64(x.index.Size())}
	for _, m := range x.index.Reachable() {
		if k := len(c.ByWorker); k > 0 && c.ByWorker[k-1].Worker == m.Member.Worker {
			c.ByWorker[k-1].Count += int64(m.Blocks)
		} else {
			c.ByWorker = append(c.ByWorker, WorkerCount{m.Member.Worker, int64(m.Blocks)})
		}
	}
	return c
}
