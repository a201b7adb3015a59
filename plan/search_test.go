package plan

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
)

// judged returns a run in which a point meets if the function returns true.
func judged(meets func(Point) bool) Run {
	return func(_ context.Context, p Point) (Measure, error) {
		m := Measure{Met: meets(p), RequestsPerS: p.Load, OutputTokensPerS: 100 * p.Load}
		m.Values = []Value{{Name: "p99 ttft", Unit: "ms", Value: 1000 * p.Load / float64(p.Shape.Size()), Limit: 100, Met: m.Met}}
		if !m.Met {
			m.Missed = "p99 ttft is too long"
		}
		return m, nil
	}
}

// The smallest cluster is found at any position, also if more workers may be worse, as long as all smaller clusters
// are run.
func TestSmallest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for trial := range 500 {
		most := 1 + rng.IntN(60)
		meets := make([]bool, most+1)
		at := 1 + rng.IntN(most+5)
		for n := range meets {
			meets[n] = n >= at
			if trial%2 == 1 && n > 0 && rng.IntN(8) == 0 {
				meets[n] = !meets[n]
			}
		}
		want := 0
		for n := most; n > 0; n-- {
			if meets[n] {
				want = n
			}
		}
		runs := map[int]int{}
		got, err := findSmallest(t.Context(), most, func(_ context.Context, sizes []int) ([]bool, error) {
			ok := make([]bool, len(sizes))
			for i, n := range sizes {
				if n < 1 || n > most {
					t.Fatalf("asked for %d workers of 1 to %d", n, most)
				}
				runs[n]++
				ok[i] = meets[n]
			}
			return ok, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		// A size between two probes is found only if a probe meets.
		if got != want && !(trial%2 == 1 && got == 0) {
			t.Fatalf("trial %d: %d workers, want %d of %v", trial, got, want, meets)
		}
	}
}

// For two pools, the smallest size of all splits is found if more workers never hurt.
func TestSmallestSplit(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for trial := range 300 {
		p, d := 1+rng.IntN(12), 1+rng.IntN(12)
		bend := rng.IntN(4) // exchange of prefill workers for decode workers
		meets := func(pt Point) bool {
			s := pt.Shape
			return s.Prefill >= p && s.Decode >= d || bend > 0 && s.Prefill >= p+2*bend && s.Decode >= max(1, d-bend-2)
		}
		want := 0
		for size := 2; want == 0; size++ {
			if slices.ContainsFunc(listSplits(size, size), func(s Shape) bool { return meets(Point{Shape: s}) }) {
				want = size
			}
		}
		s := search{bench: newBench(judged(meets), 2), at: Point{Load: 1}}
		got, err := s.smallestSplit(t.Context(), 64, Shape{})
		if err != nil || got.Size() != want || !meets(Point{Shape: got}) {
			t.Fatalf("trial %d: %v, %v; want %d workers", trial, got, err, want)
		}
	}
	s := search{bench: newBench(judged(func(Point) bool { return false }), 2), at: Point{Load: 1}}
	if got, err := s.smallestSplit(t.Context(), 16, Shape{}); err != nil || got.Size() != 0 {
		t.Errorf("%v, %v; want none", got, err)
	}
}

func TestHighest(t *testing.T) {
	for _, limit := range []float64{0.0009, 0.3, 0.999, 1, 1.5, 7.3, 1000} {
		b := newBench(judged(func(p Point) bool { return p.Load <= limit }), 2)
		met, missed, err := b.findHighest(t.Context(), Point{Shape: One(3), Load: 1}, wideLadder(0.01))
		if err != nil || met == nil || missed == nil {
			t.Fatalf("limit %v: %v, %v, %v", limit, met, missed, err)
		}
		if met.Load > limit || missed.Load <= limit || missed.Load/met.Load > 1.01 {
			t.Errorf("limit %v: met at %v, missed at %v", limit, met.Load, missed.Load)
		}
	}
	for _, limit := range []float64{0.02, 0.9, 1, 1.3, 40} {
		b := newBench(judged(func(p Point) bool { return p.Load <= limit }), 1)
		met, _, err := b.findHighest(t.Context(), Point{Shape: One(3), Load: 1}, nearLadder(0.05))
		if err != nil || met == nil || met.Load > limit || met.Load < limit/1.05 || len(b.order) > 14 {
			t.Errorf("limit %v: %v, %v in %d replays", limit, met, err, len(b.order))
		}
	}
	never := newBench(judged(func(Point) bool { return false }), 1)
	if met, missed, err := never.findHighest(t.Context(), Point{Shape: One(1), Load: 1}, wideLadder(0.01)); err != nil || met != nil || missed == nil {
		t.Errorf("%v, %v, %v; want a miss only", met, missed, err)
	}
	always := newBench(judged(func(Point) bool { return true }), 1)
	if met, missed, err := always.findHighest(t.Context(), Point{Shape: One(1), Load: 1}, wideLadder(0.01)); err != nil || met == nil || missed != nil {
		t.Errorf("%v, %v, %v; want a load that meets only", met, missed, err)
	}
}

// cfg returns a config with one pool and with two pools. Each worker bears a tenth of the load, and resamples differ.
func cfg(cores int) Config {
	return Config{
		Run: judged(func(p Point) bool {
			each := 1.0 + 0.02*float64(p.Sample%5)
			return p.Load*each <= float64(p.Shape.Size())/10
		}),
		Variants: []Variant{{Name: "one", GPUs: 8}, {Name: "two", Split: true, GPUs: 8}, {Name: "given", Fixed: One(5), GPUs: 8}},
		Most:     40, Precision: 0.01, Resamples: 10, Confidence: 0.9, Front: true, Cores: cores,
	}
}

// TestFewestGPUs checks the choice by GPUs among workers of different sizes.
func TestFewestGPUs(t *testing.T) {
	c := Config{
		Run:      judged(func(p Point) bool { return p.Shape.Workers >= []int{4, 3}[p.Variant] }),
		Variants: []Variant{{Name: "tp=1", GPUs: 1}, {Name: "tp=2", GPUs: 2}}, Most: 8, Precision: 0.1, Cores: 1,
	}
	p, err := Find(t.Context(), c)
	if err != nil || p.Best != 0 || p.GPUs(0, p.Answers[0].Shape) != 4 || p.GPUs(1, p.Answers[1].Shape) != 6 {
		t.Errorf("%+v, %v: want 4 workers of one GPU rather than 3 of two", p, err)
	}
}

// TestConfident searches the smallest cluster that meets in most resamples, from the minimum of the recorded workload
// up to the largest size.
func TestConfident(t *testing.T) {
	needs := []int{5, 5, 6, 6, 7, 7, 8, 8, 9, 20, 50} // needed workers by resample; the first is the recorded workload
	find := func(confidence float64, most int) *Confident {
		p, err := Find(t.Context(), Config{
			Run: judged(func(p Point) bool { return p.Shape.Workers >= needs[p.Sample] }), Confidence: confidence, Resamples: 10,
			Variants: []Variant{{Name: "one"}}, Most: most, Precision: 0.1, Cores: 2,
		})
		if err != nil {
			t.Fatal(err)
		}
		return p.Answers[0].Confident
	}
	for _, c := range []struct {
		confidence  float64
		most        int
		found       bool
		shape, held int
	}{{0.5, 40, true, 7, 5}, {0.8, 40, true, 9, 8}, {0.9, 40, true, 20, 9}, {0.95, 40, false, 40, 9}, {0.1, 40, true, 5, 1}} {
		if got := find(c.confidence, c.most); got.Found != c.found || got.Shape != One(c.shape) || got.Met != c.held {
			t.Errorf("%v: %+v, want %+v", c.confidence, got, c)
		}
	}
}

// TestConfidentSplit searches two pools that meet in most resamples. Each resample requires a number of workers of
// either pool. No smaller cluster meets, and the search needs few replays.
func TestConfidentSplit(t *testing.T) {
	find := func(scale, most int) (*Confident, int) {
		p, err := Find(t.Context(), Config{
			Run: func(_ context.Context, p Point) (Measure, error) {
				prefill, decode := float64(scale*(20+p.Sample))/20, float64(3*scale*(40+p.Sample%7))/40
				value := Value{Name: "x", Unit: "ms", Limit: 1, Value: max(prefill/float64(p.Shape.Prefill), decode/float64(p.Shape.Decode))}
				value.Met = value.Value <= 1
				return Measure{Met: value.Met, Values: []Value{value}}, nil
			},
			Variants: []Variant{{Name: "two", Split: true}}, Confidence: 0.95, Resamples: 20, Most: most, Precision: 0.1, Cores: 2,
		})
		if err != nil {
			t.Fatal(err)
		}
		return p.Answers[0].Confident, len(p.Measures)
	}
	for _, c := range []struct {
		scale, most int
		found       bool
		want        Shape
	}{{2, 40, true, Two(4, 7)}, {6, 60, true, Two(12, 21)}, {20, 256, true, Two(39, 69)}, {6, 30, false, Two(10, 20)}} {
		got, replays := find(c.scale, c.most)
		switch {
		case got == nil || got.Found != c.found || c.found && got.Shape != c.want || c.found && got.Met < 19 || got.At.Shape != got.Shape:
			t.Errorf("scale %d up to %d: %+v, want %+v", c.scale, c.most, got, c)
		case !c.found && got.Shape.Size() != c.most:
			t.Errorf("scale %d: %v is the largest tried, want %d workers", c.scale, got.Shape, c.most)
		case replays > 600:
			t.Errorf("scale %d: %d replays", c.scale, replays)
		}
	}
}

func TestFind(t *testing.T) {
	p, err := Find(t.Context(), cfg(2))
	if err != nil {
		t.Fatal(err)
	}
	one, two, given := &p.Answers[0], &p.Answers[1], &p.Answers[2]
	if !one.Found || one.Shape != One(10) || one.Checked != 9 || !one.EverySmaller || one.Smaller[0].Shape != One(9) || one.Smaller[0].Missed == "" {
		t.Errorf("one pool: %+v, want 10 workers after all 9 smaller ones", one)
	}
	if !two.Found || two.Shape.Size() != 10 {
		t.Errorf("two pools: %+v, want 10 workers", two)
	}
	if given.Found || given.Highest == nil || given.Highest.Load > 0.5 || given.Highest.Load < 0.49 {
		t.Errorf("given cluster: %+v, want half the load", given)
	}
	if p.Best != 0 {
		t.Errorf("best is %d, want the first of equals", p.Best)
	}
	bars := one.Bars
	if bars == nil || bars.Met != 2 || bars.Workers == nil || bars.Workers.P5 != 10 || bars.Workers.P95 != 11 || bars.SmallerMet[0] != 0 {
		t.Errorf("bars: %+v, want a fifth of the resamples to meet and 10 to 11 workers", bars)
	}
	if c := one.Confident; c == nil || !c.Found || c.Shape != One(11) || c.Met != 10 || c.Share != 0.9 {
		t.Errorf("confident: %+v, want 11 workers, since a fifth of the resamples needs no more than 10", c)
	}
	if two.Confident == nil || !two.Confident.Found || given.Confident != nil {
		t.Errorf("confident: %+v and %+v, want one for each cluster that is searched for", two.Confident, given.Confident)
	}
	for i, r := range p.Front {
		if r.GPUs != 8*r.Shape.Size() || !r.Met {
			t.Errorf("row %d: %+v", i, r)
		}
		for k := range p.Front {
			if p.Front[k].beats(&p.Front[i]) {
				t.Errorf("row %d is beaten by row %d", i, k)
			}
		}
	}
	if len(p.Front) < 6 || p.Front[0].Shape.Size() >= 10 {
		t.Errorf("front has %d rows, want some of every size", len(p.Front))
	}
}

// If larger clusters miss, the answer lists the ones that were run.
func TestLargerMayMiss(t *testing.T) {
	c := Config{
		Run:      judged(func(p Point) bool { return p.Shape.Size() == 7 || p.Shape.Size() >= 14 }),
		Variants: []Variant{{}}, Most: 40, Precision: 0.01, Cores: 2,
	}
	p, err := Find(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	a := &p.Answers[0]
	if a.Shape != One(7) || a.Checked != 6 || !a.EverySmaller || len(a.Larger) == 0 || a.Larger[0].Shape != One(8) || a.Larger[0].Missed == "" {
		t.Errorf("%+v, want 7 workers after all 6 smaller ones, and 8 as one that misses", a)
	}
	for i := range a.Larger {
		if n := a.Larger[i].Shape.Size(); n <= 7 || n >= 14 || i > 0 && n <= a.Larger[i-1].Shape.Size() {
			t.Errorf("%v among those that are larger and miss", a.Larger[i].Shape)
		}
	}
}

// The plan does not depend on the number of cores.
func TestCores(t *testing.T) {
	a, err := Find(t.Context(), cfg(1))
	if err != nil {
		t.Fatal(err)
	}
	for cores := 2; cores <= 5; cores++ {
		if b, err := Find(t.Context(), cfg(cores)); err != nil || !reflect.DeepEqual(a, b) {
			t.Fatalf("%d cores: %v; another plan", cores, err)
		}
	}
}

// Progress counts every replay once, and never expects fewer replays than are finished.
func TestProgress(t *testing.T) {
	c := cfg(3)
	var told, least atomic.Int64
	c.Progress = func(done, expected int) {
		told.Add(1)
		if expected < done {
			least.Add(1)
		}
	}
	p, err := Find(t.Context(), c)
	if err != nil || int(told.Load()) < len(p.Measures) || least.Load() > 0 {
		t.Errorf("%v; told %d times of %d replays, %d times with fewer expected", err, told.Load(), len(p.Measures), least.Load())
	}
}

// The returned error is that of the smallest index, on any number of cores.
func TestEach(t *testing.T) {
	for cores := 1; cores <= 8; cores++ {
		var ran atomic.Int64
		err := Each(t.Context(), 100, cores, func(_ context.Context, i int) error {
			ran.Add(1)
			if i >= 17 {
				return fmt.Errorf("%d", i)
			}
			return nil
		})
		if err == nil || err.Error() != "17" || ran.Load() < 18 || ran.Load() > 18+int64(cores) {
			t.Errorf("%d cores: %v after %d", cores, err, ran.Load())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := Each(ctx, 100, 2, func(_ context.Context, i int) error {
		if i == 3 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it was canceled", err)
	}
}

func TestCost(t *testing.T) {
	// 8 GPUs at 2.50 per hour are 20 per hour; 1000 tokens/s are 3.6 million tokens per hour.
	if got := CostPerMillion(8, 2.5, 1000); got < 5.5555 || got > 5.5556 {
		t.Errorf("%v, want 20/3.6", got)
	}
	if got := CostPerMillion(8, 2.5, 0); got != 0 {
		t.Errorf("%v for no tokens, want 0", got)
	}
}

// If a variant cannot run, known before or found during the search, the other variants are compared. If no variant
// can run, all reasons are reported.
func TestVariantsThatCannotRun(t *testing.T) {
	tooSmall, unfit := errors.New("too small"), errors.New("does not fit")
	run := func(ctx context.Context, p Point) (Measure, error) {
		if p.Variant == 1 && p.Shape.Size() > 1 {
			return Measure{}, &CannotRunError{tooSmall}
		}
		return judged(func(p Point) bool { return p.Variant == 2 && p.Shape.Workers >= 3 && p.Load <= 1 })(ctx, p)
	}
	c := Config{Run: run, Most: 8, Precision: 0.01, Front: true, Cores: 2, Resamples: 2,
		Variants: []Variant{{Name: "a", Refused: unfit, Fixed: One(2)}, {Name: "b", Fixed: One(2)}, {Name: "c"}}}
	p, err := Find(t.Context(), c)
	if err != nil || p.Best != 2 || p.Answers[0].Refused != unfit || p.Answers[1].Refused != tooSmall || p.Answers[2].Refused != nil {
		t.Fatalf("%+v, %v", p, err)
	}
	for _, m := range p.Measures {
		if m.Variant != 2 {
			t.Errorf("%+v is left of a variant that cannot run", m.Point)
		}
	}
	c.Variants = c.Variants[:2]
	if _, err = Find(t.Context(), c); !errors.Is(err, unfit) || !errors.Is(err, tooSmall) {
		t.Errorf("%v, want both reasons", err)
	}
}

// Plans with GPUs of different prices are compared by cost, also in the front, and by the share of resamples. Plans
// with one price are compared by the number of GPUs.
func TestPlanByCost(t *testing.T) {
	run := judged(func(p Point) bool {
		need := []int{1, 2}[p.Variant] // of expensive GPUs, and of cheap GPUs
		if p.Variant == 1 && p.Sample > 0 {
			need = 3
		}
		return float64(p.Shape.Workers) >= float64(need)*p.Load
	})
	for _, x := range []struct {
		prices    [2]float64
		resamples int
		byCost    bool
		best      int
	}{
		{[2]float64{2.5, 1.2}, 0, true, 1},
		{[2]float64{2.5, 1.2}, 3, true, 0}, // three cheap GPUs cost more
		{[2]float64{4, 1.2}, 3, true, 1},
		{[2]float64{2, 2}, 0, false, 0},
		{[2]float64{2.5, 0}, 0, false, 0}, // an unknown price
	} {
		c := Config{Run: run, Most: 8, Precision: 0.01, Front: true, Cores: 2, Resamples: x.resamples, Confidence: 0.95,
			Variants: []Variant{{Name: "dear", Price: x.prices[0]}, {Name: "cheap", PricePerHour: func(s Shape) float64 { return x.prices[1] * float64(s.Size()) }}}}
		p, err := Find(t.Context(), c)
		if err != nil || p.Best != x.best || p.ByCost != x.byCost {
			t.Fatalf("%v: best %d by cost %v, %v", x, p.Best, p.ByCost, err)
		}
		if first := p.Front[0].Variant; (first == 1) != x.byCost {
			t.Errorf("%v: the front begins with variant %d", x, first)
		}
	}
}
