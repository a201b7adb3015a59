package silicon

import (
	"math"
	"testing"
)

// TestLadder checks that rungs rise, that each number is between its rungs, and that values between rungs are linear.
func TestLadder(t *testing.T) {
	for _, l := range []ladder{0, 1, 2, 3} {
		for rung := range 40 {
			if low, high := l.at(rung), l.at(rung+1); rung > 0 && high <= low || l.below(low) != rung {
				t.Fatalf("ladder %d: rung %d is %d, the next %d; %d is found on %d", l, rung, low, high, low, l.below(low))
			}
		}
		for x := range 5000 {
			if rung := l.below(x); l.at(rung) > x || l.at(rung+1) <= x {
				t.Fatalf("ladder %d: %d is found from %d on, and below %d", l, x, l.at(rung), l.at(rung+1))
			}
		}
		calls := 0
		line := newTable(l, 1000, func(x int) float64 { calls++; return 3*float64(x) + 2 })
		for range 2 {
			for x := 1; x < 3000; x++ {
				if got, want := line.at(x), 3*float64(x)+2; math.Abs(got-want) > 1e-9*want {
					t.Fatalf("ladder %d: %d has the value %v, want %v", l, x, got, want)
				}
			}
		}
		if calls > len(line.cells) {
			t.Errorf("ladder %d: %d values of %d were computed", l, calls, len(line.cells))
		}
	}
}
