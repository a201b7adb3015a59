package kvevents

import (
	"math/rand/v2"
	"testing"

	"github.com/replay-llm/replay/scheduler"
)

// tree is a simple model of a cache: for each block, the number of copies and the parent.
type tree map[uint64]struct {
	copies    int
	parent    uint64
	hasParent bool
}

// reachable returns the number of blocks with a path to a root.
func (k tree) reachable() (n int) {
	for h := range k {
		seen := 0
		for b, ok := k[h]; ok && seen <= len(k); b, ok = k[b.parent] {
			if !b.hasParent {
				n++
				break
			}
			seen++
		}
	}
	return n
}

// After any events, Apply reports a block as removed with its last copy. The runs contain every block with a path to
// a root exactly once, after its parent.
func TestHoldingEqualsPlainTree(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		h, want := NewHolding(), tree{}
		for range 300 {
			e := scheduler.KVEvent{}
			if r.IntN(10) == 0 {
				e.Tier = scheduler.HostPinned // an event that must be ignored
			}
			if r.IntN(3) > 0 {
				parent := r.Uint64N(30)
				e.Parent, e.HasParent = parent, parent > 0
				for range 1 + r.IntN(4) {
					parent = 1 + r.Uint64N(60)
					e.Stored = append(e.Stored, scheduler.KVBlock{Seq: parent, Tokens: parent * 3})
				}
			} else {
				e.Removed = []uint64{1 + r.Uint64N(60), 1 + r.Uint64N(60)}
			}
			var gone []uint64
			if e.Tier == scheduler.Device {
				parent, hasParent := e.Parent, e.HasParent
				for _, b := range e.Stored {
					one := want[b.Seq]
					one.copies, one.parent, one.hasParent = one.copies+1, parent, hasParent
					want[b.Seq] = one
					parent, hasParent = b.Seq, true
				}
				for _, b := range e.Removed {
					one, ok := want[b]
					if one.copies--; ok && one.copies > 0 {
						want[b] = one
					} else if ok {
						delete(want, b)
						gone = append(gone, b)
					}
				}
			}
			got := h.Apply(&e, nil)
			if len(got) != len(gone) {
				t.Fatalf("seed %d: gone are %v, want %v", seed, got, gone)
			}
			for i := range got {
				if got[i] != gone[i] {
					t.Fatalf("seed %d: gone are %v, want %v", seed, got, gone)
				}
			}
			if len(h.cached.at) != len(want) {
				t.Fatalf("seed %d: %d blocks, want %d", seed, len(h.cached.at), len(want))
			}
			atMost := 1 + r.IntN(5)
			checkRuns(t, h.Runs(atMost), want, atMost)
		}
	}
}

func checkRuns(t *testing.T, runs []Run, want tree, atMost int) {
	t.Helper()
	seen := make(map[uint64]bool)
	for _, run := range runs {
		if len(run.Blocks) == 0 || len(run.Blocks) > atMost {
			t.Fatalf("a run of %d blocks, want 1 to %d", len(run.Blocks), atMost)
		}
		parent, hasParent := run.Parent, run.HasParent
		if hasParent && !seen[parent] {
			t.Fatalf("%+v comes before its parent", run)
		}
		for _, b := range run.Blocks {
			w, ok := want[b.Seq]
			if !ok || seen[b.Seq] || w.hasParent != hasParent || hasParent && w.parent != parent || b.Tokens != b.Seq*3 {
				t.Fatalf("block %+v behind %d (%v), want %+v, once", b, parent, hasParent, w)
			}
			seen[b.Seq] = true
			parent, hasParent = b.Seq, true
		}
	}
	if n := want.reachable(); len(seen) != n {
		t.Fatalf("%d blocks in runs, want %d", len(seen), n)
	}
}
