package kvevents

import (
	"fmt"
	"sync"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Index has the cached blocks of each worker, from the events of the workers. Any goroutine may ask and feed it.
type Index struct {
	mu    sync.Mutex
	tiers [tierExternal + 1]*counting // by tier; routers ask the device's
	gone  int                         // blocks removed since the trees were pruned
	warn  func(string)
}

// totalSize returns the number of blocks known in all memories.
func (x *Index) totalSize() (n int) {
	for _, tier := range x.tiers {
		n += tier.Size()
	}
	return n
}

// minGonePrune is the number of removed blocks below which a read of the trees is not worth it.
const minGonePrune = 10_000

// pruneAfter drops unused memory of the index after n more blocks are removed.
func (x *Index) pruneAfter(n int) {
	if x.gone += n; x.gone < minGonePrune || x.gone < x.totalSize() {
		return
	}
	x.gone = 0
	for _, tier := range x.tiers {
		tier.Prune()
	}
}

// NewIndex returns an empty index. warn, if not nil, receives the changes that do not fit; they are not fatal.
func NewIndex(warn func(string)) *Index {
	x := &Index{warn: warn}
	for t := range x.tiers {
		x.tiers[t] = newCounting()
	}
	return x
}

// Match appends, for each rank of each worker that caches any on its device,
// how many of the blocks with the given local hashes it caches from the first,
// ordered by worker and rank.
func (x *Index) Match(query []uint64, dst []router.Match) []router.Match {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.tiers[scheduler.Device].Match(query, false, dst)
}

// Blocks counts, for each rank of each worker, the blocks on its device that a
// query can find.
func (x *Index) Blocks() []router.Match {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.tiers[scheduler.Device].Reachable()
}

// Size returns the number of blocks known, of all workers on their devices.
func (x *Index) Size() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.tiers[scheduler.Device].Size()
}

// Feed applies the events of one publisher about a worker. A worker may have several publishers, one for each of its
// ranks.
type Feed struct {
	index  *Index
	worker sim.WorkerID
	fed    map[cache]struct{} // what this publisher has spoken of
}

// Size returns the number of blocks that the publisher has told of and that are known.
func (f *Feed) Size() (n int) {
	f.index.mu.Lock()
	defer f.index.mu.Unlock()
	for c := range f.fed { // in any order: a sum
		n += f.index.tiers[c.tier].MemberSize(router.Member{Worker: f.worker, Rank: c.rank})
	}
	return n
}

var _ Sink = (*Feed)(nil)

// Feed returns the sink that takes a publisher's changes into the index, as those of
// worker w.
func (x *Index) Feed(w sim.WorkerID) *Feed {
	return &Feed{index: x, worker: w, fed: make(map[cache]struct{})}
}

// Take takes in changes, in order.
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

// Replace takes in changes instead of all earlier changes of the publisher. No reader sees the index in
// between.
func (f *Feed) Replace(changes []Change) {
	f.index.mu.Lock()
	defer f.index.mu.Unlock()
	f.forgetAll()
	for i := range changes {
		if !changes[i].Clear { // a snapshot's, of ranks that it does not speak of too
			f.applyChange(&changes[i])
		}
	}
}

// Leave takes everything out of the index that the publisher has told.
func (f *Feed) Leave() {
	f.index.mu.Lock()
	defer f.index.mu.Unlock()
	f.forgetAll()
}

func (f *Feed) forgetAll() {
	x := f.index
	before := x.totalSize()
	for c := range f.fed { // in any order: the outcome is the same
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
