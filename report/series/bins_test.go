package series

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// The bin of a value is that of its logarithm, also at the edges of bins and of the parts of the table.
func TestBinsAreThoseOfLogarithms(t *testing.T) {
	literal := func(v float64) int {
		if v <= 0 {
			return 0
		}
		return max(0, int(math.Floor((math.Log2(v)-lowest)*perOctave)))
	}
	check := func(v float64) {
		for range 3 {
			v = math.Nextafter(v, 0)
		}
		for range 7 {
			if got, want := binOf(v), literal(v); got != want {
				t.Fatalf("%v: bin %d, want %d", v, got, want)
			}
			v = math.Nextafter(v, math.Inf(1))
		}
	}
	for i := range 60 * perOctave {
		check(Edge(i))
		check(math.Float64frombits(math.Float64bits(Edge(i)) - edgeWidth))
		check(math.Float64frombits(math.Float64bits(Edge(i)) + edgeWidth))
	}
	for octave := -25; octave < 40; octave++ {
		for i := range 257 {
			check(math.Ldexp(1+float64(i)/256, octave))
		}
	}
	rng := rand.New(rand.NewPCG(4, 4))
	for range 200000 {
		check(math.Exp(rng.Float64()*40 - 20))
	}
	for _, v := range []float64{0, -1, math.SmallestNonzeroFloat64, 1e-300, 1e300} {
		if got, want := binOf(v), literal(v); got != want {
			t.Errorf("%v: bin %d, want %d", v, got, want)
		}
	}
}

// Gaps of a run are counted as single gaps are.
func TestRunsAreTheirGaps(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 5))
	for range 2000 {
		at, step := sim.Time(rng.IntN(1000)), math.Exp(rng.Float64()*14-7)
		p := scheduler.Pass{Start: at, Decoding: rng.IntN(3)}
		for range rng.IntN(60) {
			if rng.IntN(9) == 0 {
				step = math.Exp(rng.Float64()*14 - 7)
			}
			step *= 1 + rng.Float64()*0.004
			at += sim.Time(step)
			p.Ends = append(p.Ends, at)
		}
		var got, want Histogram
		got.addRun(&p)
		for i := range p.Ends {
			want.Add(float64(p.GapOf(i)), p.Decoding)
		}
		if !slices.Equal(got.Counts, want.Counts) || got.Total != want.Total {
			t.Fatalf("%v: %+v, want %+v", p.Ends, got, want)
		}
	}
}

func BenchmarkBins(b *testing.B) {
	rng := rand.New(rand.NewPCG(4, 4))
	values := make([]float64, 1024)
	for i := range values {
		values[i] = math.Exp(rng.NormFloat64())
	}
	var h Histogram
	for i := 0; b.Loop(); i++ {
		h.Add(values[i%1024], 1)
	}
}
