package timing

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/replay-llm/replay/sim"
)

// drawClock draws a clock of any kind, with times from 0 to times too long for ns.
func drawClock(rng *rand.Rand) Clock {
	scale := []float64{1e-12, 1e-9, 1e-7, 1e-5, 1e-3, 1, 1e6}[rng.IntN(7)]
	c := Clock{Speedup: []float64{0, 1, 1, 1, 2.5}[rng.IntN(5)], DecodeSpeedup: []float64{1, 1, 1.7}[rng.IntN(3)]}
	switch rng.IntN(6) {
	case 0:
		c.Model = Polynomial{}
	case 1:
		c.Model = &Table{
			PrefillTokens: []float64{1, 100}, PrefillMS: []float64{1, 10}, ActiveTokens: []float64{10, 1000}, ContextTokens: []float64{5, 500},
			DecodeMS: []float64{1 + rng.Float64(), 3, 2, 5 + 1000*scale},
		}
	default:
		c.Model = &Parameters{
			Base: scale * rng.Float64(), Weights: scale * rng.Float64(), Token: scale * rng.Float64() / 100, Request: scale / 1e3, Context: scale * rng.Float64() / 1e4,
			PiecewiseBase: scale * rng.Float64(), EagerBase: scale * rng.Float64(), Graphs: []int{1 + rng.IntN(9)}, GraphMode: GraphMode(GraphModes()[rng.IntN(5)]),
		}
	}
	return c
}

// A run of passes equals the single passes from Step.
func TestRepeat(t *testing.T) {
	runs, odd := 0, 0
	for seed := range uint64(20000) {
		rng := rand.New(rand.NewPCG(seed, 11))
		c := drawClock(rng)
		n := 1 + rng.IntN(9)
		s := Step{Tokens: n, Requests: n, Decodes: n, Context: rng.Int64N(1e5), Active: rng.IntN(1000), Capacity: 1000}
		s.DecodeLength = int(s.Context)
		r := Run{Apart: rng.IntN(4) == 0, Most: 1 + rng.IntN(40), End: sim.Time(rng.Float64() * 1e6)}
		if r.Until = r.End + sim.Time(rng.Float64()*100); rng.IntN(3) == 0 {
			r.Until = 1e300
		}
		one, end := s, r.End
		if err := c.Repeat(&s, &r); err != nil {
			continue
		}
		for i := range r.Ends {
			if i > 0 && end >= r.Until {
				t.Fatalf("seed %d: pass %d begins at %v, want before %v", seed, i, end, r.Until)
			}
			ms, err := c.timePass(&one, r.Apart)
			if err != nil {
				t.Fatal(err)
			}
			end += sim.Time(ms)
			one.Context += int64(one.Requests)
			one.DecodeLength += one.Decodes
			nanos, ok := InNanos(ms)
			if r.Ends[i] != end || ok && r.Nanos[i] != nanos || (len(r.Nanos) == len(r.Ends)) != ok {
				t.Fatalf("seed %d: pass %d of %d ends at %v after %v ns, want %v after %v (%v)", seed, i, len(r.Ends), r.Ends[i], r.Nanos, end, nanos, ok)
			}
		}
		if r.End != end || !reflect.DeepEqual(s, one) {
			t.Fatalf("seed %d: ends at %v before %+v, want %v, %+v", seed, r.End, s, end, one)
		}
		if runs += len(r.Ends) - 1; len(r.Ends) == r.Most || end >= r.Until {
			continue
		}
		odd++
		ms, err := c.timePass(&one, r.Apart)
		_, ok := InNanos(ms)
		if len(r.Ends) > 1 && err == nil && ok && end+sim.Time(ms) > end {
			t.Fatalf("seed %d: %d passes, want %d or up to %v", seed, len(r.Ends), r.Most, r.Until)
		}
	}
	if runs < 20000 || odd < 100 {
		t.Errorf("%d passes in runs, %d runs that end early, want more", runs, odd)
	}
}

// TestRepeatAllocatesNothing checks that a run allocates no memory if its slices have room.
func TestRepeatAllocatesNothing(t *testing.T) {
	ends, nanos, s := make([]sim.Time, 0, 16), make([]int64, 0, 16), &Step{}
	for _, m := range []Model{Polynomial{}, &Parameters{Base: 1e-3}, measured(t, "h100/llama-3.1-8b")} {
		c := Clock{Speedup: 0.8, DecodeSpeedup: 1, Model: m}
		if n := testing.AllocsPerRun(100, func() {
			*s = Step{Tokens: 10, Requests: 10, Readers: 10, Decodes: 10, Context: 1e4, DecodeLength: 1e4, Active: 1e4, Capacity: 1e5}
			r := Run{Most: 16, Until: 1e300, Ends: ends, Nanos: nanos}
			if err := c.Repeat(s, &r); err != nil || len(r.Ends) != 16 {
				t.Fatal(len(r.Ends), err)
			}
		}); n > 0 {
			t.Errorf("%T: %v allocations, want none", m, n)
		}
	}
}

func BenchmarkRepeat(b *testing.B) {
	c := Clock{Speedup: 1, DecodeSpeedup: 1, Model: &Parameters{Base: 1e-3, Weights: 5e-3, Token: 1e-6, Request: 1e-6, Context: 3e-8, Graphs: DefaultGraphs(256)}}
	r := Run{Most: 16, Until: 1e300}
	for b.Loop() {
		s := Step{Tokens: 10, Requests: 10, Decodes: 10, Context: 1e5}
		r.End, r.Ends, r.Nanos = 0, r.Ends[:0], r.Nanos[:0]
		if err := c.Repeat(&s, &r); err != nil {
			b.Fatal(err)
		}
	}
}
