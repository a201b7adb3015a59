package series

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Wider bins keep the sums and their positions.
func TestBinsKeepWhatTheyHold(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	s := New()
	var early, all float64
	for i := range 5000 {
		from := sim.Time(i) * 20 * sim.Time(rng.Float64())
		to := from + 500*sim.Time(rng.Float64())
		s.addOver(&s.all.Output, from, to, 3)
		all += 3
		if to < 2048 {
			early += 3
		}
	}
	sum, before := 0.0, 0.0
	for i, n := range s.all.Output {
		sum += n
		if float64(i+1)*s.all.BinMS <= 2048 {
			before += n
		}
	}
	if math.Abs(sum-all) > 1e-6 || before < early || early == 0 {
		t.Errorf("bins hold %v, %v of it early; want %v and at least %v", sum, before, all, early)
	}
	if len(s.all.Output) > most || len(s.all.Output) < most/2 || s.all.BinMS < 2 {
		t.Errorf("%d bins of %v ms, want up to %d, wider than at first", len(s.all.Output), s.all.BinMS, most)
	}
}

func TestHistogramQuantiles(t *testing.T) {
	var h Histogram
	for i := range 1000 {
		h.Add(float64(i+1), 2)
	}
	for _, q := range []float64{0.1, 0.5, 0.99, 1} {
		if got, want := h.Quantile(q), 1000*q; math.Abs(got/want-1) > 0.015 {
			t.Errorf("quantile %v is %v, want about %v", q, got, want)
		}
	}
	if h.Total != 2000 {
		t.Errorf("%d values, want 2000", h.Total)
	}
}

// A run of passes of different durations counts like the single passes.
func TestUnequalPasses(t *testing.T) {
	run, single := New(), New()
	ends := []sim.Time{40, 45, 80, 130}
	run.Pass(scheduler.Aggregated, 0, &scheduler.Pass{Start: 30, End: 130, Count: 4, Ends: ends, Decoding: 2, Tokens: 2})
	start := sim.Time(30)
	for _, end := range ends {
		single.Pass(scheduler.Aggregated, 0, &scheduler.Pass{Start: start, End: end, Count: 1, Gap: end - start, Decoding: 2, Tokens: 2})
		start = end
	}
	a, b := run.File(), single.File()
	if !reflect.DeepEqual(a.Gaps, b.Gaps) || a.Gaps.Total != 8 {
		t.Errorf("gaps %+v, want %+v", a.Gaps, b.Gaps)
	}
	if x, y := run.Totals()[0], single.Totals()[0]; x != y {
		t.Errorf("totals %+v, want %+v", x, y)
	}
}

// A single request of ten tokens, in a run of passes after its prefill.
func TestPasses(t *testing.T) {
	s := New()
	q := &sim.Request{InputTokens: 100, OutputTokens: 10}
	s.Arrived(q, 0)
	s.Routed(scheduler.Aggregated, 0, &router.Placement{Request: q, Worker: 1})
	s.Pass(scheduler.Aggregated, 1, &scheduler.Pass{
		Start: 0, End: 30, Count: 1, Gap: 30, Tokens: 1, PrefillTokens: 60,
		Admitted: []scheduler.Admission{{Reused: 40}}, Marks: []scheduler.Mark{{First: true, Tokens: 1}},
		Detail: &scheduler.Detail{PrefillEnd: 20, Blocks: 10, Held: 5},
	})
	s.Pass(scheduler.Aggregated, 1, &scheduler.Pass{
		Start: 30, End: 120, Count: 9, Gap: 10, Decoding: 1, Tokens: 1,
		Marks:  []scheduler.Mark{{Last: true, Tokens: 10}},
		Detail: &scheduler.Detail{PrefillEnd: 30, Blocks: 10, Cached: 5},
	})
	f := s.File()
	if len(f.Workers) != 2 || f.Gaps.Total != 9 {
		t.Fatalf("%d workers and %d gaps, want 2 and 9", len(f.Workers), f.Gaps.Total)
	}
	w := f.Workers[1]
	for _, c := range []struct {
		name string
		bins bins
		want float64
	}{
		{"arrived", f.Arrived, 1}, {"finished", f.Finished, 1}, {"output", f.Output, 10}, {"busy", w.Busy, 120},
		{"held", w.Held, 150}, {"cached", w.Cached, 450}, {"prefill", w.Prefill, 20}, {"prompts", w.Prompts, 100},
		{"reused", w.Reused, 40}, {"batch", w.Batch, 120}, {"computed", w.Computed, 60},
	} {
		sum := 0.0
		for _, n := range c.bins {
			sum += n
		}
		if math.Abs(sum-c.want) > 0.1 {
			t.Errorf("%s: %v, want %v", c.name, sum, c.want)
		}
	}
	total := s.Totals()[1]
	want := Total{
		Stage: "aggregated", Worker: 1, Requests: 1, Passes: 10, BusyMS: 120, PrefillMS: 20, Computed: 60, Prompts: 100, Reused: 40,
		Output: 10, Blocks: 10, MeanHeld: 1.25, MeanCached: 3.75, MeanBatch: 1,
	}
	if total != want {
		t.Errorf("total %+v, want %+v", total, want)
	}
	if w.Passes != 10 || w.Tokens != 10 || w.Requests != 1 {
		t.Errorf("%d passes, %d tokens, %d requests, want 10, 10, 1", w.Passes, w.Tokens, w.Requests)
	}
}
