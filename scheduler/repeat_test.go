package scheduler

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/replay-llm/replay/sim"
)

// plainRepeat adds the passes one at a time.
func plainRepeat(t, d sim.Time, n int, until sim.Time) []sim.Time {
	var ends []sim.Time
	for i := 0; i < n && (i == 0 || t < until); i++ {
		t = t + d
		ends = append(ends, t)
	}
	return ends
}

// Repeated calls of the closed form end every pass at the same instant as the plain loop.
func TestRepeatEqualsAddition(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 20000 {
		start := sim.Time(math.Ldexp(rng.Float64(), rng.IntN(40)-8))
		if i%50 == 0 {
			start = 0
		}
		d := sim.Time(rng.IntN(40_000_000)) / 1e6
		switch i % 7 {
		case 0: // halfway between two float64s
			_, e := math.Frexp(float64(start))
			u := math.Ldexp(1, e-53)
			d = sim.Time(u * (float64(rng.IntN(1000)) + 0.5))
		case 1: // far below the spacing
			d = sim.Time(math.Ldexp(rng.Float64(), -60))
		case 2:
			d = 0
		}
		n := 1 + rng.IntN(3000)
		until := start + d*sim.Time(rng.IntN(4000)) + sim.Time(rng.IntN(2))
		if rng.IntN(3) == 0 {
			until = sim.Time(math.Inf(1))
		}
		want := plainRepeat(start, d, n, until)
		at, done := start, 0
		for done < len(want) {
			count, end, gap := Repeat(at, d, n-done, until)
			if count < 1 || done+count > len(want) {
				t.Fatalf("case %d: start %v d %v n %d until %v: %d passes after %d, want %d in all", i, start, d, n, until, count, done, len(want))
			}
			for k := range count {
				if got := at + sim.Time(float64(k+1)*float64(gap)); got != want[done+k] {
					t.Fatalf("case %d: start %v d %v: pass %d ends at %v, want %v", i, start, d, done+k, got, want[done+k])
				}
			}
			if end != want[done+count-1] {
				t.Fatalf("case %d: run ends at %v, want %v", i, end, want[done+count-1])
			}
			at, done = end, done+count
		}
	}
}
