package timing

import (
	"math"
	"testing"

	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/sim"
)

// measured returns the Measured model of a fit.
func measured(t testing.TB, path string) *Measured {
	t.Helper()
	m, err := ParseSource("silicon:" + path).Load()
	if err != nil {
		t.Fatal(err)
	}
	return m.(*Measured)
}

// TestMeasuredRuns compares a run of passes that only decode with the same passes one by one, across the knots of the
// tables of attention.
func TestMeasuredRuns(t *testing.T) {
	for _, path := range []string{"h100/llama-3.1-8b", "gb300/kimi-k2.5?tp=4&weights=nvfp4&engine=sglang-0.5.23", "h100/gpt-oss-120b?graphs=none"} {
		for _, n := range []int{1, 5, 37, 300} {
			clock := Clock{Model: measured(t, path), Speedup: []float64{1, 0.8}[n%2], DecodeSpeedup: 1}
			step := Step{Tokens: n, Requests: n, Readers: n, Context: int64(n) * 90, Decodes: n, DecodeLength: n * 90, Capacity: 1 << 30}
			one := step
			run := Run{Until: sim.Time(math.Inf(1)), Most: 2000}
			if err := clock.Repeat(&step, &run); err != nil {
				t.Fatal(err)
			}
			end := sim.Time(0)
			for i, got := range run.Ends {
				ms, err := clock.Step(&one)
				if err != nil {
					t.Fatal(err)
				}
				if end += sim.Time(ms); end != got {
					t.Fatalf("%s: %d requests: pass %d ends at %v in a run, at %v by itself", path, n, i, got, end)
				}
				one.Grow(1)
			}
			if len(run.Ends) != run.Most || one.Context != step.Context {
				t.Errorf("%s: %d requests: a run has %d passes and ends with %d tokens, want %d and %d", path, n, len(run.Ends), step.Context, run.Most, one.Context)
			}
		}
	}
}

// TestMeasuredRises checks that more work takes longer.
func TestMeasuredRises(t *testing.T) {
	for _, path := range []string{"h100/llama-3.1-8b", "h200/deepseek-v3?tp=8", "rtxpro6000/qwen3-32b?tp=2", "h100/llama-3.1-70b?tp=4&pp=2"} {
		m := measured(t, path)
		last := 0.0
		for n := 1; n < 3000; n += 1 + n/7 {
			if ms := m.Decode(n, 0, 1500, 0); ms < 0.98*last || !(ms > 0) {
				t.Errorf("%s: a pass that decodes %d takes %v ms, fewer took %v", path, n, ms, last)
			} else {
				last = ms
			}
		}
		last = 0
		for n := 16; n < 40000; n += 1 + n/7 {
			if ms := m.Prefill(1, n, 0); ms < 0.98*last {
				t.Errorf("%s: a prompt of %d takes %v ms, a shorter one %v", path, n, ms, last)
			} else {
				last = ms
			}
		}
		if all, rest := m.Prefill(1, 8000, 0), m.Prefill(1, 8000, 7000); rest > all/2 {
			t.Errorf("%s: a prompt of which 7/8 are cached takes %v ms, the whole %v", path, rest, all)
		}
	}
}

// TestMeasuredLaunches checks the time of launches. Passes with piecewise graphs take longer by one launch per piece,
// and passes without graphs by 50 µs per layer. With graphs, the launch time of prompts is part of a factor.
func TestMeasuredLaunches(t *testing.T) {
	full, pieces, none := measured(t, "h100/llama-3.1-8b"), measured(t, "h100/llama-3.1-8b?graphs=piecewise"), measured(t, "h100/llama-3.1-8b?graphs=none")
	a, b := full.Decode(8, 0, 1000, 0), pieces.Decode(8, 0, 1000, 0)
	if want := 1000 * hardware.PieceTime * 32; math.Abs(b-a-want) > 1e-9 {
		t.Errorf("a pass as pieces takes %v ms, as one graph %v, want %v more", b, a, want)
	}
	eager := 1000 * hardware.LaunchTime * 32
	for _, more := range []float64{
		none.Decode(8, 0, 1000, 0) - a,                             // 8 is a captured size
		none.Prefill(1, 2000, 0) - full.Prefill(1, 2000, 0),        // too large for a graph
		full.Decode(2048, 0, 100, 0) - unlaunched(full, 2048, 100), // the same value
	} {
		if math.Abs(more-eager) > 1e-9 {
			t.Errorf("a pass without graphs takes %v ms more, want %v", more, eager)
		}
	}
}

// unlaunched returns the time of the operators and the host for a pass that only decodes.
func unlaunched(m *Measured, requests, context int) float64 {
	l := m.Passes.Generation(requests, int64(requests*context))
	return l.At(int64(requests*context)) + m.Passes.Decode(requests, requests) + m.Corrections.Base + float64(m.Corrections.Request*float64(requests))
}

// TestMeasuredAllocatesNothing checks that a pass of known shapes allocates no memory.
func TestMeasuredAllocatesNothing(t *testing.T) {
	m := measured(t, "h100/llama-3.1-8b")
	mixed := promptsStep(2, 900, 100)
	mixed.Readers, mixed.Context, mixed.Tokens, mixed.Requests = 5, 9000, mixed.Tokens+5, 7
	m.Step(mixed)
	m.Decode(9, 0, 700, 0)
	if n := testing.AllocsPerRun(100, func() {
		m.Step(mixed)
		m.Step(&Step{Tokens: 9, Requests: 9, Readers: 9, Context: 6300})
	}); n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func BenchmarkMeasuredStep(b *testing.B) {
	m := measured(b, "h200/deepseek-v3?tp=8")
	s := Step{Tokens: 64, Requests: 64, Readers: 64, Context: 64 * 3000}
	for b.Loop() {
		m.Step(&s)
	}
}

func BenchmarkMeasuredMixed(b *testing.B) {
	m := measured(b, "h100/llama-3.1-8b")
	s := promptsStep(2, 900, 100)
	s.Readers, s.Context, s.Tokens, s.Requests = 37, 37*3000, s.Tokens+37, 39
	for b.Loop() {
		m.Step(s)
	}
}
