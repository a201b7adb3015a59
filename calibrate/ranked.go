package calibrate

import (
	"cmp"
	"math"
	"slices"

	"github.com/replay-llm/replay/internal/stable"
)

// counterparts returns, for metric k of each chosen request of an outcome, the measured value to compare it with. In
// an open loop, this value is the request's own. In a closed loop, this value is the one of the same rank, because
// the concurrent requests of a request are unknown. A request may wait for other prompts only in the run or only in
// the replay.
func (t *target) counterparts(k int, simulated []float64) []float64 {
	if t.run.InFlight == 0 {
		return t.measured[k]
	}
	if t.sorted[k] == nil {
		t.sorted[k] = slices.Clone(t.measured[k])
		slices.SortFunc(t.sorted[k], compareLast)
	}
	t.order = t.order[:0]
	for j, v := range simulated {
		if !math.IsNaN(v) {
			t.order = append(t.order, j)
		}
	}
	stable.Sort(t.order, func(a, b int) int { return cmp.Compare(simulated[a], simulated[b]) })
	t.paired = append(t.paired[:0], t.measured[k]...) // values that are NaN stay
	for rank, j := range t.order {
		t.paired[j] = t.sorted[k][rank]
	}
	return t.paired
}

// compareLast orders numbers and puts NaN last.
func compareLast(a, b float64) int {
	switch {
	case math.IsNaN(a):
		return cmp.Compare(1, 0)
	case math.IsNaN(b):
		return -1
	}
	return cmp.Compare(a, b)
}
