package calibrate

import (
	"cmp"
	"math"
	"slices"

	"github.com/replay-llm/replay/internal/stable"
)

// counterparts returns, for metric k of each chosen request of an outcome, the measured value that it is compared with:
// its own or, in a closed loop, that of the same rank. In a closed loop the concurrent requests of a request are
// unknown: it may wait for other prompts in the run and not in the replay, or the other way round.
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
	t.paired = append(t.paired[:0], t.measured[k]...) // what is no number stays
	for rank, j := range t.order {
		t.paired[j] = t.sorted[k][rank]
	}
	return t.paired
}

// compareLast orders numbers, with NaN last.
func compareLast(a, b float64) int {
	switch {
	case math.IsNaN(a):
		return cmp.Compare(1, 0)
	case math.IsNaN(b):
		return -1
	}
	return cmp.Compare(a, b)
}
