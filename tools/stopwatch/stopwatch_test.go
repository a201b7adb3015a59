package stopwatch

import "testing"

func TestMedian(t *testing.T) {
	for want, values := range map[float64][]int{3: {3}, 2.5: {4, 2, 3, 1}, 5: {9, 5, 1}} {
		if got := Median(values, func(v int) float64 { return float64(v) }); got != want {
			t.Errorf("median of %v is %v, want %v", values, got, want)
		}
	}
}
