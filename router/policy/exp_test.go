package policy

import (
	"math"
	"testing"
)

func TestExpIsClose(t *testing.T) {
	for x := -740.0; x < 700; x += 0.37 {
		want, got := math.Exp(x), expPortable(x)
		if math.Abs(got-want) > 4e-16*want+5e-324 {
			t.Errorf("exp(%v) is %v, want %v", x, got, want)
		}
	}
	for x, want := range map[float64]float64{0: 1, math.Inf(-1): 0, -1000: 0, math.Inf(1): math.Inf(1), 800: math.Inf(1)} {
		if got := expPortable(x); got != want {
			t.Errorf("exp(%v) is %v, want %v", x, got, want)
		}
	}
}
