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

// The start of the search for fixed times, which no data sheet has: s of every pass, and the share of a pass with
// prompts in the time to a quick first token.
const (
	passStart   = 2e-3
	promptShare = 0.8
)

// Fixed times of all passes, and of passes that compute prompts.
const (
	passField    = "base_s"
	promptsField = "mixed_base_s"
	shareField   = "expert_share"
)

// startOwn returns where a search for the times of passes begins for engines other than vLLM's.
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
	p.Knee = 4 // as the sheets have it
	p.Base, p.MixedBase = max(p.Base, passStart), promptShare*quick
	return p
}

// ownForm returns the parameters that are fitted to runs of engines other than vLLM's. These are a fixed time of all
// passes, one of passes with prompts, and what the data sheets have. All other parameters keep the values of the data
// sheets.
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

// findOwn searches for the parameters of a server other than vLLM: downhill by their effects, and then the means by
// themselves. One form is enough. Its parameters are drawn to the data sheets where the runs do not determine them.
func (s *search) findOwn() (fitted, error) {
	s.form = s.ownForm()
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
	return fitted{best, s.form.parametersAt(&s.start, at.u), s.form.frontEndAt(at.u), s.start, s.runs}, s.err
}

// useStage prepares for replays of m under the scheduler of an engine other than vLLM.
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

// newCore returns an engine with passes timed by a clock.
func (s *Simulation) newCore(clock timing.Clock) (scheduler.Core, error) {
	stage := *s.stage
	stage.Clock = clock
	return stage.Core(0)
}
