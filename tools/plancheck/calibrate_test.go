package main

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/replay-llm/replay/internal/accuracy"
	"github.com/replay-llm/replay/sim"
)

// Gaps between arrivals have a mean of 1 and the given coefficient of variation.
func TestGapsHaveTheirSpread(t *testing.T) {
	for _, burst := range []float64{1, 1.5, 2.5} {
		r := sim.NewRand(1, "gaps")
		const n = 200_000
		sum, squares := 0.0, 0.0
		for range n {
			g := drawGap(r, burst)
			sum += g
			squares += g * g
		}
		mean := sum / n
		spread := math.Sqrt(squares/n-mean*mean) / mean
		if math.Abs(mean-1) > 0.03 || math.Abs(spread-burst) > 0.05*burst {
			t.Errorf("gaps of spread %v have a mean of %v and a spread of %v", burst, mean, spread)
		}
	}
}

// A tenth of the factors is on each side of a band.
func TestFactorsOfBand(t *testing.T) {
	b := &accuracy.Band{Median: -20, Low: -36, High: 0}
	for z, want := range map[float64]float64{0: 1.25, 1.2815515655446004: 1 / 0.64, -1.2815515655446004: 1} {
		if got := factorAt(b, z); math.Abs(got-want) > 1e-12 {
			t.Errorf("%v at %v, want %v", got, z, want)
		}
	}
}

// The same name draws the same workload of a system, and a different name draws a different one.
func TestDrawsRepeat(t *testing.T) {
	s, err := drawSystem(3)
	if err != nil {
		t.Fatal(err)
	}
	again, err := drawSystem(3)
	if err != nil || *again != *s {
		t.Errorf("%+v and %+v, %v", s, again, err)
	}
	read := func(name string) string {
		path := filepath.Join(t.TempDir(), "trace.csv")
		if err := s.writeTrace(path, name); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if a := read("a"); a != read("a") || a == read("b") {
		t.Error("draws differ in other ways than by their names")
	}
}
