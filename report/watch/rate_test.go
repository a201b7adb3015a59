package watch

import (
	"math"
	"testing"

	"github.com/replay-llm/replay/sim"
)

// A rate is the mean of the counts of slices, weighted by age. A constant flow has its exact rate from the start.
func TestRateEqualsTwin(t *testing.T) {
	for seed := range uint64(50) {
		random := sim.NewRand(seed, "rate")
		type span struct {
			from, to sim.Time
			n        int
		}
		var all []span
		w := &worker{from: sim.Time(random.IntN(5000))}
		w.at = w.from
		for range 1 + random.IntN(30) {
			idle, length := sim.Time(0), sim.Time(1+random.IntN(4000))
			if random.IntN(3) == 0 && len(all) > 0 {
				idle = sim.Time(random.IntN(9000))
			}
			s := span{w.at + idle, w.at + idle + length, random.IntN(100)}
			all = append(all, s)
			w.outputs.addOver(idle, length, s.n)
			w.at = s.to
		}
		now := w.at + sim.Time(random.IntN(2)*random.IntN(20000))
		const slices = 2000
		sum := 0.0
		for _, s := range all {
			for i := range slices {
				at := float64(s.from) + float64(s.to-s.from)*(float64(i)+0.5)/slices
				sum += float64(s.n) / slices * math.Exp(-(float64(now)-at)/float64(memory))
			}
		}
		weights := 0.0
		for i := range slices * 10 {
			at := float64(w.from) + float64(now-w.from)*(float64(i)+0.5)/(slices*10)
			weights += float64(now-w.from) / (slices * 10) * math.Exp(-(float64(now)-at)/float64(memory))
		}
		if got, want := w.outputs.perSecond(w, now), 1000*sum/weights; math.Abs(got-want) > 1e-4*(1+want) {
			t.Errorf("seed %d: %v a second, want %v", seed, got, want)
		}
	}
	even := &worker{from: 70, at: 70}
	for range 500 {
		even.outputs.addOver(0, 20, 3)
		even.at += 20
		if got := even.outputs.perSecond(even, even.at); math.Abs(got-150) > 1e-9*150 {
			t.Fatalf("at %v ms: %v a second, want 150", even.at, got)
		}
	}
	if got := new(rate).perSecond(even, even.from); got != 0 {
		t.Errorf("%v a second of nothing in no time, want 0", got)
	}
}
