package kvevents

import (
	"fmt"
	"sync"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Index has the cached blocks of each worker, built from the workers' events. Index is safe for concurrent use.
type Index struct {
	mu    sync.Mutex
	tiers [tierExternal + 1]*counting // by tier; Match reads the device tier
	gone  int                         // number of blocks removed since the last prune
	warn  func(string)
}

// totalSize returns the number of blocks known in all memories.
func (x *Index) totalSize() (n int) {
	for _, tier := range x.tiers {
		n += tier.Size()
	}
	return n
}

// minGonePrune is the number of removed blocks below which a prune is not worth its time.
const minGonePrune = 10_000

// pruneAfter counts n removed blocks, and frees unused memory of the index after enough of them.
func (x *Index) pruneAfter(n int) {
	if x.gone += n; x.gone < minGonePrune || x.gone < x.totalSize() {
		return
	}
	x.gone = 0
	for _, tier := range x.tiers {
		tier.Prune()
	}
}

// NewIndex returns an empty index. warn, if not nil, receives changes that do not fit, which are not fatal.
func NewIndex(warn func(string)) *Index {
	x := &Index{warn: warn}
	for t := range x.tiers {
		x.tiers[t] = newCounting()
	}
	return x
}

// Match appends the number of leading blocks of query that are cached on the device, for each rank of each worker
// with at least one. The query consists of local hashes. Matches are sorted by worker and rank.
func (x *Index) Match(query []uint64, dst []router.Match) []router.Match {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.tiers[scheduler.Device].Match(query, false, dst)
}

// Blocks returns, for each rank of each worker, the number of blocks on the device that a query can find.
func (x *Index) Blocks() []router.Match {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.tiers[scheduler.Device].Reachable()
}

// Size returns the number of blocks on the devices of all workers.
func (x *Index) Size() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.tiers[scheduler.Device].Size()
}

// Feed applies the events of one publisher about a worker. A worker may have a publisher for each of its ranks.
type Feed struct {
	index  *Index
	worker sim.WorkerID
	fed    map[cache]struct{} // the ranks and tiers in the publisher's events
}

// Size returns the number of known blocks of the publisher.
func (f *Feed) Size() (n int) {
	f.index.mu.Lock()
	defer f.index.mu.Unlock()
	for c := range f.fed { // the order is irrelevant for a sum
		n += f.index.tiers[c.tier].MemberSize(router.Member{Worker: f.worker, Rank: c.rank})
	}
	return n
}

var _ Sink = (*Feed)(nil)

// Feed returns a sink that applies a publisher's changes to the index, as changes of worker w.
func (x *Index) Feed(w sim.WorkerID) *Feed {
	return &Feed{index: x, worker: w, fed: make(map[cache]struct{})}
}

// Take applies changes in order.
func (f *Feed) Take(changes []Change) {
	f.index.mu.Lock()
	defer f.index.mu.Unlock()
	gone := 0
	for i := range changes {
		f.applyChange(&changes[i])
		gone += len(changes[i].Event.Removed)
	}
	f.index.pruneAfter(gone)
}

// Replace replaces all earlier changes of the publisher by changes. Readers never see an intermediate state.
func (f *Feed) Replace(changes []Change) {
	f.index.mu.Lock()
	defer f.index.mu.Unlock()
	f.forgetAll()
	for i := range changes {
		if !changes[i].Clear { // the clear of a snapshot would also remove other ranks
			f.applyChange(&changes[i])
		}
	}
}

// Leave removes all blocks of the publisher from the index.
func (f *Feed) Leave() {
	f.index.mu.Lock()
	defer f.index.mu.Unlock()
	f.forgetAll()
}

func (f *Feed) forgetAll() {
	x := f.index
	before := x.totalSize()
	for c := range f.fed { // the order is irrelevant
		x.tiers[c.tier].ClearMember(router.Member{Worker: f.worker, Rank: c.rank})
	}
	clear(f.fed)
	x.pruneAfter(before - x.totalSize())
}

func (f *Feed) applyChange(c *Change) {
	x := f.index
	if c.Clear {
		before := x.totalSize()
		for _, tier := range x.tiers {
			tier.Clear(f.worker)
		}
		x.gone += before - x.totalSize()
		return
	}
	f.fed[cache{c.Event.Rank, c.Event.Tier}] = struct{}{}
	if err := x.tiers[c.Event.Tier].Apply(f.worker, c.Event); err != nil && x.warn != nil {
		x.warn(fmt.Sprintf("index of cached blocks: %v", err))
	}
}
