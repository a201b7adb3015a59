package calibrate

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/calibrate/measured/measuredtest"
	"github.com/replay-llm/replay/scheduler/timing"
)

// mixture returns the settings of a server of a model with experts.
func mixture() string {
	return measuredtest.Meta(`nobody/Nothing-9B`, `Qwen/Qwen3-30B-A3B`, `"engine_kwargs"`, `"hardware":{"device_name":"NVIDIA H100 80GB HBM3"},"engine_kwargs"`)
}

// TestFindsExperts checks that a pass of a model with experts reads only the experts of its tokens, in a fit as on
// data sheets. One set of parameters explains a server with few concurrent requests and with many.
func TestFindsExperts(t *testing.T) {
	t.Parallel()
	requests := dense(160)
	for i := range requests { // first one at a time, then many
		requests[i].Arrival += 0.9 * float64(min(i, 60))
	}
	truth := timing.Parameters{Weights: 1.5e-3, Experts: 24e-3, ExpertShare: 8.0 / 128, Token: 12e-6, Context: 0.05e-6, Mixed: 0.08e-6, Knee: 2}
	_, out := serveIn(t, mixture(), requests, truth)
	r, err := Run(t.Context(), written(t, mixture(), requests, &out), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	p := &r.Profile.Parameters
	if p.ExpertShare != truth.ExpertShare || math.Abs(p.Experts/truth.Experts-1) > 0.1 {
		t.Errorf("experts take %v s and a token is sent to %v of them, want %v and %v\n%s", p.Experts, p.ExpertShare, truth.Experts, truth.ExpertShare, &b)
	}
	for _, e := range r.Checks[0].Errors {
		if math.Abs(e.Mean) > 0.01 || e.Metric != "TTFT" && e.Each > 0.01 {
			t.Errorf("%+v, want errors of 1 %% at most\n%s", e, &b)
		}
	}
	if !strings.Contains(b.String(), "experts") {
		t.Errorf("nothing is said of experts:\n%s", &b)
	}
}

// TestExpertsOfEngines checks that engines in lockstep share the experts, so each expert processes the tokens of all
// engines.
func TestExpertsOfEngines(t *testing.T) {
	one := &measured.Settings{Engine: timing.Engine{GPU: "h100", Model: "qwen3-30b-a3b"}, DataParallel: 1, Pods: 1}
	two := *one
	two.DataParallel, two.Lockstep = 2, true
	a, b := measured.StartParameters(one), measured.StartParameters(&two)
	if !near(b.Experts, a.Experts/2) || !near(b.ExpertShare, 1-math.Pow(1-a.ExpertShare, 2)) || b.Weights != a.Weights {
		t.Errorf("of two engines %+v, of one %+v", b, a)
	}
	two.Lockstep = false
	if c := measured.StartParameters(&two); c.Experts != a.Experts || c.ExpertShare != a.ExpertShare {
		t.Errorf("of two engines of their own %+v, of one %+v", c, a)
	}
}

// TestScaleExperts checks that a factor on the weights also applies to the experts.
func TestScaleExperts(t *testing.T) {
	start := measured.StartParameters(&measured.Settings{Engine: timing.Engine{GPU: "h100", Model: "qwen3-30b-a3b"}, DataParallel: 1, Pods: 1})
	form := plainForms()[0]
	p := form.parametersAt(&start, []float64{math.Log(2), 0, 0, 0})
	if !near(p.Weights, 2*start.Weights) || !near(p.Experts, 2*start.Experts) {
		t.Errorf("%+v at twice %+v", p, start)
	}
	step := timing.Step{Tokens: 4, Requests: 4}
	e := newEffects([]stretch{{0, 1, step, 1}}, &p, &form)
	if want := p.Step(&step)/1000 - 4*p.Token; math.Abs(e.upTo[0][1]/want-1) > 0.15 {
		t.Errorf("the weights have an effect of %v s on a pass that reads %v s of them", e.upTo[0][1], want)
	}
}
