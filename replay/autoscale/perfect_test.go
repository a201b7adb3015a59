package autoscale

import (
	"testing"

	"github.com/replay-llm/replay/sim"
)

// TestForeseen compares maxima with counts at each instant.
func TestForeseen(t *testing.T) {
	random := sim.NewRand(1, "foreseen")
	for range 200 {
		var stays [][2]sim.Time
		for range random.IntN(12) {
			from := sim.Time(random.IntN(20))
			stays = append(stays, [2]sim.Time{from, from + sim.Time(random.IntN(8))})
		}
		f := NewForeseen(stays)
		for range 20 {
			from := sim.Time(random.IntN(30))
			to := from + sim.Time(random.IntN(10))
			want := 0
			for at := from; at <= to; at += 0.5 {
				n := 0
				for _, s := range stays {
					if s[0] <= at && at < s[1] {
						n++
					}
				}
				want = max(want, n)
			}
			if got := f.Most(from, to); got != want {
				t.Fatalf("%v from %v to %v: %d, want %d", stays, float64(from), float64(to), got, want)
			}
		}
	}
}
