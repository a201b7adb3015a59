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

// passStart and promptShare are start values for fixed times, which data sheets do not have. passStart is s of every
// pass. promptShare is the share of a pass with prompts in a quick time to the first token.
const (
	passStart   = 2e-3
	promptShare = 0.8
)

// The fields are the fixed times of all passes and of passes that compute prompts, and the share of experts that a
// token reads.
const (
	passField    = "base_s"
	promptsField = "mixed_base_s"
	shareField   = "expert_share"
)

// startOwn returns the start of a search for the pass times of an engine other than vLLM.
func startOwn(s *measured.Settings, targets []*target) timing.Parameters {
	quick := math.Inf(1)
	for _, t := range targets {
		quick = min(quick, measured.QuantileOf(t.measured[0], 0.1))
	}
	f, ok := s.Fit()
	if !ok {
		p := measured.StartParameters(s)
		p.Base, p.MixedBase = passStart, promptShare*quick
		return p
	}
	p := timing.Roofline(&f).Parameters
	p.Knee = 4 // as in the data sheets
	p.Base, p.MixedBase = max(p.Base, passStart), promptShare*quick
	return p
}

// ownForm returns the parameters that are fitted to runs of engines other than vLLM's. The parameters are a fixed
// time of all passes, a fixed time of passes with prompts, and the parameters of the data sheets. All other
// parameters keep the values of the data sheets.
func (s *search) ownForm() Form {
	fields := []string{denseField, "token_s", "context_s", "pair_s", passField, promptsField}
	if s.start.Experts > 0 {
		fields = append(fields, expertsField, shareField)
	}
	if s.client {
		fields = append(fields, frontEndFirst)
	}
	f := newForm(s.start.Knee, fields, []string{s.trials[0].sim.settings.Kind})
	f.keeps = true
	return f
}

// findOwn searches for the parameters of a server other than vLLM. findOwn first descends by the effects of
// parameters, then corrects the means. One form is enough. Parameters that the runs do not determine are drawn to the
// data sheets.
func (s *search) findOwn() (fitted, error) {
	s.form = s.ownForm()
	var at point
	// Most of a first token's time may be in passes or in the way to the server, so there are two starts.
	for i, change := range []float64{0, -1} {
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
	return fitted{best, s.form.parametersAt(&s.start, at.u), s.form.frontEndAt(at.u), s.start, s.runs}, s.err
}

// useStage prepares replays of m under the scheduler of an engine other than vLLM.
func (s *Simulation) useStage(m *Measured, p *measured.Prompts) error {
	a, err := engineargs.Parse(nil, engineargs.Options{Set: m.Settings.EngineArgs()})
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
	s.stage, s.next = all[0], m.followers()
	for i := range s.requests {
		if err := s.stage.Fits(s.requests[i].InputTokens, s.requests[i].OutputTokens); err != nil {
			return &measured.NotModelledError{Reasons: []string{"request " + string(m.Requests[i].ID) + ": " + err.Error()}}
		}
	}
	return nil
}

// newCore returns an engine with passes timed by clock.
func (s *Simulation) newCore(clock timing.Clock) (scheduler.Core, error) {
	stage := *s.stage
	stage.Clock = clock
	return stage.Core(0)
}
