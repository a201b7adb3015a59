package timing

import (
	"math"
	"strings"
	"testing"
)

// The launch of a pass depends on the mode, on the work of the pass, and on the largest graph.
func TestKinds(t *testing.T) {
	decode, mixed := Step{Tokens: 8, Requests: 8}, Step{Tokens: 8, Requests: 2, Pairs: 30}
	long := Step{Tokens: 9, Requests: 9}
	for mode, want := range map[GraphMode][3]Kind{
		"":                   {FullGraph, Piecewise, Eager},
		"FULL_AND_PIECEWISE": {FullGraph, Piecewise, Eager},
		"FULL":               {FullGraph, FullGraph, Eager},
		"FULL_DECODE_ONLY":   {FullGraph, Eager, Eager},
		"PIECEWISE":          {Piecewise, Piecewise, Eager},
		"NONE":               {Eager, Eager, Eager},
	} {
		p := &Parameters{Weights: 1, PiecewiseBase: 0.25, EagerBase: 0.5, GraphMode: mode, Graphs: []int{4, 8}}
		bare := &Parameters{Weights: 1, Graphs: p.Graphs}
		for i, s := range []*Step{&decode, &mixed, &long} {
			if got := p.KindOf(s); got != want[i] {
				t.Errorf("%q: pass %d is of kind %d, want %d", mode, i, got, want[i])
			}
			if more := (p.Step(s) - bare.Step(s)) / 1000; math.Abs(more-[]float64{0, 0.25, 0.75}[want[i]]) > 1e-12 {
				t.Errorf("%q: pass %d takes %v s more than a graph", mode, i, more)
			}
		}
	}
	if p := (&Parameters{}); p.KindOf(&decode) != Eager {
		t.Error("without graphs a pass is one")
	}
}

// All forms of modes that vLLM writes are parsed.
func TestGraphModes(t *testing.T) {
	for text, want := range map[string]GraphMode{
		"FULL_AND_PIECEWISE": "FULL_AND_PIECEWISE", "CUDAGraphMode.PIECEWISE": "PIECEWISE", "[2, 1]": "FULL_AND_PIECEWISE", "[2 1]": "FULL_AND_PIECEWISE", "(2, 0)": "FULL_DECODE_ONLY",
		"full": "FULL", "1": "PIECEWISE", "0": "NONE",
	} {
		if got, ok := NewGraphMode(text); got != want || !ok {
			t.Errorf("%s is %q, %v", text, got, ok)
		}
	}
	if _, ok := NewGraphMode("SOME"); ok {
		t.Error("SOME is a mode")
	}
	for _, c := range []struct {
		p    Parameters
		want string
	}{
		{Parameters{Weights: 1, GraphMode: "SOME"}, `cudagraph_mode is "SOME", must be one of FULL_AND_PIECEWISE`},
		{Parameters{Weights: 1, EagerBase: -1}, "eager_base_s is -1, must be a finite number"},
		{Parameters{Weights: 1, PiecewiseBase: math.Inf(1)}, "piecewise_base_s is +Inf"},
	} {
		if err := c.p.check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
