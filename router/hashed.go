package router

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Hashes looks up the prompts of requests by the hashes of their blocks, if there is no tree of all prompts. A
// request is known until the request has left.
type Hashes interface {
	// Sequence returns the sequence hashes of the full blocks of a prompt.
	Sequence(id sim.RequestID) []uint64
	// Cached returns the workers that have cached leading blocks of the prompt, with the numbers of blocks.
	Cached(id sim.RequestID) []Match
}

// hashIndex is an index outside the dispatcher: in cluster mode, it is built from the KV events of the workers.
type hashIndex struct{ hashes Hashes }

func (x hashIndex) grow(int) {}

func (x hashIndex) observe(sim.WorkerID, *scheduler.Pass) error { return nil }

func (x hashIndex) match(q *sim.Request, s *scores) { s.raiseMatches(x.hashes.Cached(q.ID)) }

// hashLoads counts distinct blocks by their hashes. The memory of hashLoads is proportional to the requests in
// flight.
type hashLoads struct {
	hashes  Hashes
	holders []map[uint64]int32 // by worker, then by sequence hash
	blocks  []int64            // by worker: active blocks
}

func (l *hashLoads) byWorker() []int64 { return l.blocks }

func (l *hashLoads) grow(workers int) {
	for len(l.holders) < workers {
		l.holders = append(l.holders, make(map[uint64]int32))
	}
	l.blocks = growSlice(l.blocks, workers)
}

func (l *hashLoads) match(q *sim.Request, s *scores) {
	sequence := l.hashes.Sequence(q.ID)
	for w, holders := range l.holders {
		depth := 0
		for depth < len(sequence) && holders[sequence[depth]] > 0 {
			depth++
		}
		s.raise(sim.WorkerID(w), int32(depth))
	}
}

func (l *hashLoads) add(w sim.WorkerID, q *sim.Request) {
	for _, hash := range l.hashes.Sequence(q.ID) {
		l.holders[w][hash]++
	}
	l.blocks[w] = int64(len(l.holders[w]))
}

func (l *hashLoads) remove(w sim.WorkerID, q *sim.Request) {
	holders := l.holders[w]
	for _, hash := range l.hashes.Sequence(q.ID) {
		if holders[hash]--; holders[hash] == 0 {
			delete(holders, hash)
		}
	}
	l.blocks[w] = int64(len(holders))
}
