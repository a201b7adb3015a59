package router

import (
	"testing"

	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// TestTallyTwin compares a tally with a map, while it grows and shrinks and its gaps close.
func TestTallyTwin(t *testing.T) {
	type key struct {
		node   prompt.NodeID
		worker sim.WorkerID
	}
	r := sim.NewRand(1, "tally")
	fast := newTally()
	plain := map[key]int{}
	for step := range 40_000 {
		k := key{prompt.NodeID(r.IntN(60)), sim.WorkerID(r.IntN(10))}
		if grow := step/5000%2 == 0; r.IntN(10) < 3+4*asInt(grow) {
			fast.add(k.node, k.worker)
			plain[k]++
		} else {
			if got, want := fast.drop(k.node, k.worker), plain[k] > 0; got != want {
				t.Fatalf("step %d: dropped %t of %v, want %t", step, got, k, want)
			}
			if plain[k]--; plain[k] <= 0 {
				delete(plain, k)
			}
		}
		if fast.counts.Len() != len(plain) {
			t.Fatalf("step %d: %d counts, want %d", step, fast.counts.Len(), len(plain))
		}
	}
	for k, want := range plain {
		for range want {
			if !fast.drop(k.node, k.worker) {
				t.Fatalf("the count of %v is less than %d", k, want)
			}
		}
	}
	if fast.counts.Len() != 0 {
		t.Errorf("%d counts are left", fast.counts.Len())
	}
}
