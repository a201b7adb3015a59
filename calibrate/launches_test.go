package calibrate

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/calibrate/measured/measuredtest"
	"github.com/replay-llm/replay/scheduler/timing"
)

// TestFindsKinds checks that a fit separates passes without graphs from passes with graphs, when only the first take
// longer.
func TestFindsKinds(t *testing.T) {
	t.Parallel()
	settings := measuredtest.Meta(`"policy"`, `"cudagraph_capture_sizes":[1,2,4,8,16,64],"cudagraph_mode":[2,1],"policy"`)
	requests := dense(200)
	for i := range requests {
		requests[i].Input = 5 + i*37%170 // some of them fit into a graph together with decoding requests
		requests[i].Arrival *= 2.2
	}
	p := truth()
	p.EagerBase, p.MixedBase = 11e-3, 1.5e-3
	_, out := serveIn(t, settings, requests, p)
	r, err := Run(t.Context(), written(t, settings, requests, &out), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	if got := r.Profile.Parameters.EagerBase; math.Abs(got/p.EagerBase-1) > 0.15 {
		t.Errorf("passes without graphs take %v s more, want %v\n%s", got, p.EagerBase, &b)
	}
	if len(r.Kinds) != 3 {
		t.Errorf("kinds of passes are %v, want three\n%s", r.Kinds, &b)
	}
}

// TestKindsToFit checks that a fit has a parameter only for kinds of passes that a server has. No parameter may have
// the same effect as the weights.
func TestKindsToFit(t *testing.T) {
	for _, c := range []struct {
		graphs           []int
		mode             timing.GraphMode
		piecewise, eager bool // with a knee of 2
		first            int  // extensions with a knee of 1
	}{
		{[]int{512}, "", false, false, 2},
		{[]int{64}, "", false, true, 3},
		{[]int{64}, "FULL_DECODE_ONLY", false, false, 2},
		{[]int{64}, "PIECEWISE", true, true, 3},
		{nil, "", false, true, 2},
	} {
		s := &measured.Settings{Engine: timing.Engine{MaxBatchedTokens: 512}, Graphs: c.graphs, GraphMode: c.mode}
		start := measured.StartParameters(s)
		has := func(field string) bool {
			return slices.ContainsFunc(plainForms()[1].extensions(&start), func(f Form) bool { return slices.Contains(f.Fields, field) })
		}
		if has(piecewiseField) != c.piecewise || has(eagerField) != c.eager || len(plainForms()[0].extensions(&start)) != c.first {
			t.Errorf("%q with graphs of %v: %+v", c.mode, c.graphs, start)
		}
	}
}

// TestTellsLaunches checks that launches have no separate parameter if almost all passes with prompts are launched in
// the same way.
func TestTellsLaunches(t *testing.T) {
	mixed := func(tokens int, lasts float64) stretch {
		return stretch{end: lasts, step: timing.Step{Tokens: tokens, Pairs: 1}}
	}
	for _, c := range []struct {
		small float64 // time of passes that fit into a graph
		want  bool
	}{{0, false}, {0.09, false}, {0.11, true}, {0.89, true}, {0.91, false}} {
		s := &search{trials: []*trial{{}}}
		s.start.Graphs, s.start.GraphMode = []int{512}, "FULL_AND_PIECEWISE"
		s.start.EagerBase = 1e-3
		s.trials[0].record.engines = [][]stretch{{mixed(512, c.small), mixed(2048, 1-c.small)}}
		form := newForm(2, []string{denseField}, nil)
		offered := slices.ContainsFunc(s.extensionsOf(&form), func(f Form) bool { return f.Fields[len(f.Fields)-1] == eagerField })
		if s.separatesLaunches() != c.want || offered != c.want {
			t.Errorf("%v of the time: told %v, offered %v, want %v", c.small, s.separatesLaunches(), offered, c.want)
		}
	}
}
