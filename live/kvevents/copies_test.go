package kvevents

import (
	"testing"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
)

// findable is the set of the names of the blocks that an engine can find. findable skips and counts events about a
// copy.
type findable map[uint64]bool

func (f findable) take(e *scheduler.KVEvent) (copies int) {
	if e.Copy {
		return 1
	}
	for _, b := range e.Stored {
		f[b.Seq] = true
	}
	for _, seq := range e.Removed {
		delete(f, seq)
	}
	return 0
}

// isKnown reports whether the index has exactly these blocks.
func (f findable) isKnown(x *Index) bool {
	for seq := range f {
		if !x.tiers[scheduler.Device].Has(router.Member{}, seq) {
			return false
		}
	}
	return x.Size() == len(f)
}

// After every event the index has exactly the blocks that the engine can find. The test uses an index from the first
// event and an index from a snapshot.
func TestIndexKnowsWhatTheEngineFinds(t *testing.T) {
	for seed := range uint64(passes(12)) {
		l := newCopies(t, seed, 150, 12)
		warn := func(s string) { t.Errorf("seed %d: %s", seed, s) }
		whole, latest := NewIndex(warn), NewIndex(warn)
		feeds := []*Feed{whole.Feed(0), latest.Feed(0)}
		k, want, copies := newCached(), findable{}, 0
		take := func(events []scheduler.KVEvent) {
			for i, e := range events {
				e.Copy = false
				k.applyEvent(&e)
				for _, f := range feeds {
					f.Take([]Change{{Event: e}})
				}
				copies += want.take(&events[i])
				if len(k.at) != len(want) || !want.isKnown(whole) || !want.isKnown(latest) {
					t.Fatalf("seed %d: the engine can find %d blocks, %d in the index, %d in that from a snapshot, %d in the next snapshot",
						seed, len(want), whole.Size(), latest.Size(), len(k.at))
				}
			}
		}
		for range 20 {
			for range 20 {
				take(l.step(t))
			}
			feeds[1].Replace(k.changes())
		}
		l.drain(t, take)
		if copies < 50 {
			t.Errorf("seed %d: %d events of copies: the engine is too easy", seed, copies)
		}
		sameAnswers(t, latest, whole, l.queries(seed, 200))
		feeds[0].Leave()
		if n := len(whole.tiers[scheduler.Device].more[router.Member{}]); whole.Size() != 0 || n != 0 {
			t.Errorf("%d blocks are left of a publisher that has left, %d of them copies", whole.Size(), n)
		}
	}
}

// Copies are counted separately for each rank and memory. A clear resets the counts.
func TestCopiesOfRanks(t *testing.T) {
	x := NewIndex(func(s string) { t.Error(s) })
	f, other := x.Feed(0), x.Feed(0)
	stored := func(rank int32, tier scheduler.Tier) Change {
		return Change{Event: scheduler.KVEvent{Rank: rank, Tier: tier, Stored: []scheduler.KVBlock{{Seq: 7, Tokens: 7}}}}
	}
	removed := func(rank int32, tier scheduler.Tier) Change {
		return Change{Event: scheduler.KVEvent{Rank: rank, Tier: tier, Removed: []uint64{7}}}
	}
	for i, c := range []struct {
		feed    *Feed
		changes []Change
		blocks  int // blocks known in all memories after the changes
	}{
		{f, []Change{stored(0, 0), stored(0, 0), stored(0, 0), stored(0, scheduler.HostPinned)}, 2},
		{other, []Change{stored(1, 0), stored(1, 0)}, 3},
		{f, []Change{removed(0, scheduler.HostPinned)}, 2},
		{f, []Change{removed(0, 0), removed(0, 0)}, 2},
		{other, []Change{removed(1, 0)}, 2},
		{f, []Change{removed(0, 0), stored(0, 0), stored(0, 0)}, 2},
		{other, []Change{stored(1, 0), {Clear: true}}, 0},
		{f, []Change{stored(0, 0), removed(0, 0)}, 0},
		{other, []Change{stored(1, 0), removed(1, 0)}, 0},
		{f, []Change{stored(0, 0), stored(0, 0), {Event: scheduler.KVEvent{Removed: []uint64{7, 7}}}}, 0},
	} {
		if c.feed.Take(c.changes); x.totalSize() != c.blocks {
			t.Errorf("step %d: %d blocks known, want %d", i, x.totalSize(), c.blocks)
		}
	}
}
