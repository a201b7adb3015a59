package calibrate

import (
	"math"
	"slices"

	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
)

// Where the search for fixed times begins, which no data sheet has: s of every pass, and what a pass with prompts takes of
// the time to a quick first token.
const (
	passStart   = 2e-3
	promptShare = 0.8
)

// Fixed times of all passes, and of those that compute prompts.
const (
	passField    = "base_s"
	promptsField = "mixed_base_s"
	shareField   = "expert_share"
)

// startSGLang returns where a search for the times of SGLang's passes begins.
func startSGLang(s *measured.Settings, targets []*target) timing.Parameters {
	quick := math.Inf(1)
	for _, t := range targets {
		quick = min(quick, measured.QuantileOf(t.measured[0], 0.1))
	}
	f, ok := s.FitSGLang()
	if !ok {
		p := measured.StartParameters(s)
		p.Base, p.MixedBase = passStart, promptShare*quick
		return p
	}
	p := timing.Roofline(&f).Parameters
	p.Knee = 4 // as the sheets have it
	p.Base, p.MixedBase = max(p.Base, passStart), promptShare*quick
	return p
}

// sglangForm returns the parameters that are fitted to runs of SGLang, of which passes compute either prompts
// or tokens: a fixed time of each kind, and what the data sheets have. The others stay as those have them.
func (s *search) sglangForm() Form {
	fields := []string{denseField, "token_s", "context_s", "pair_s", passField, promptsField}
	if s.start.Experts > 0 {
		fields = append(fields, expertsField, shareField)
	}
	if s.client {
		fields = append(fields, wayFirst)
	}
	f := newForm(s.start.Knee, fields, []string{timing.SGLang})
	f.keeps = true
	return f
}

// findSGLang searches for the parameters of a server of SGLang: downhill by their effects, and then the means by
// themselves. One form does, whose parameters are drawn to the data sheets where the runs do not tell them.
func (s *search) findSGLang() (fitted, error) {
	s.form = s.sglangForm()
	var at point
	for i, change := range []float64{0, -1} { // what a first token waits for is a pass, or the way to it
		u := make([]float64, len(s.form.Fields))
		u[slices.Index(s.form.Fields, promptsField)] = change
		if p := s.descendNewton(point{u: u}); i == 0 || p.loss < at.loss {
			at = p
		}
	}
	s.setWeight(lastWeight)
	at = s.polishMeans(at)
	at.loss = s.loss(at.u)
	best := candidate{at, s.form}
	return fitted{best, s.form.parametersAt(&s.start, at.u), s.form.wayAt(at.u), s.start, s.runs}, s.err
}

// useSGLang prepares for replays of m under the scheduler of SGLang.
func (s *Simulation) useSGLang(m *Measured, p *measured.Prompts) error {
	a, err := engineargs.Parse(nil, engineargs.Options{Set: m.Settings.KeysOfSGLang()})
	if err != nil {
		return &measured.NotModelledError{Reasons: []string{err.Error()}}
	}
	if s.requests, s.tree, err = m.simRequests(p); err != nil {
		return err
	}
	all, err := engines.NewStages(&engines.Topology{Pools: engines.OnePool(a, 1)}, engines.Use{Tree: s.tree, Requests: len(s.requests)})
	if err != nil {
		return err
	}
	s.sglang, s.next = all[0], m.followers()
	for i := range s.requests {
		if err := s.sglang.Fits(s.requests[i].InputTokens, s.requests[i].OutputTokens); err != nil {
			return &measured.NotModelledError{Reasons: []string{"request " + string(m.Requests[i].ID) + ": " + err.Error()}}
		}
	}
	return nil
}

// newSGLang returns an engine with passes timed by a clock.
func (s *Simulation) newSGLang(clock timing.Clock) (scheduler.Core, error) {
	stage := *s.sglang
	stage.Clock = clock
	return stage.Core(0)
}
