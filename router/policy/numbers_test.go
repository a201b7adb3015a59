package policy

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
)

// TestFractionsAreWrittenAsNumbers checks that fraction.append gives the text of appendNumber for any sequence of
// numbers, and that the text is parsed as the same number.
func TestFractionsAreWrittenAsNumbers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var f fraction
	special := []float64{0, math.Copysign(0, -1), 1 << 53, 1<<53 + 2, -math.MaxFloat64, math.SmallestNonzeroFloat64, math.NaN(), math.Inf(1), -1.2345678901234567e-300}
	x := 0.5
	for range 20_000 {
		switch r.IntN(5) {
		case 0:
			x = special[r.IntN(len(special))]
		case 1:
			x = float64(r.IntN(1000))
		case 2:
			x = math.Float64frombits(r.Uint64())
		case 3:
			x = r.Float64()
		}
		got, want := string(f.append(nil, x)), string(appendNumber(nil, x))
		if got != want {
			t.Fatalf("%v is written %s, want %s", x, got, want)
		}
		var back any
		if err := json.Unmarshal([]byte(got), &back); err != nil || back != nil && back.(float64) != x {
			t.Fatalf("%v is read as %v, %v", x, back, err)
		}
	}
}
