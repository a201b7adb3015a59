package sliding_test

import (
	"math/rand/v2"
	"testing"

	"github.com/replay-llm/replay/internal/sliding"
)

// A table has the same values as a map without zero values.
func TestTableIsMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var table sliding.Table[int32]
	all := make(map[int]int32)
	for step := range 200000 {
		at := max(0, step/4+rng.IntN(6000)-3000)
		if rng.IntN(200) == 0 {
			at = rng.IntN(100000)
		}
		if got := table.Get(at); got != all[at] {
			t.Fatalf("step %d: %d at %d, want %d", step, got, at, all[at])
		}
		if v := int32(rng.IntN(3)); v != 0 {
			table.Set(at, v)
			all[at] = v
		} else {
			table.Set(at, 0)
			delete(all, at)
		}
	}
	last, set := -1, 0
	for at, v := range table.All() {
		if set++; at <= last || v != all[at] {
			t.Fatalf("after %d comes %d with %d, want %d", last, at, v, all[at])
		}
		last = at
	}
	if set != len(all) {
		t.Errorf("%d values, want %d", set, len(all))
	}
	for at := range 110000 {
		if got := table.Get(at); got != all[at] {
			t.Fatalf("%d at %d, want %d", got, at, all[at])
		}
	}
}

// A moving window of values allocates memory only for the list of pages.
func TestTableSlides(t *testing.T) {
	var table sliding.Table[*int]
	x, at := new(int), 0
	slide := func() {
		for range 5000 {
			table.Set(at, x)
			if at >= 3000 {
				table.Set(at-3000, nil)
			}
			at++
		}
	}
	slide()
	if n := testing.AllocsPerRun(20, slide); n > 1 {
		t.Errorf("%v allocations, want at most 1", n)
	}
}
