package calibrate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/scheduler/timing"
)

// Result is the result of a calibration.
type Result struct {
	Profile timing.Profile `json:"profile"`
	Run     string         `json:"run"`
	Notes   []string       `json:"notes"` // assumptions of the fit
	Checks  []Check        `json:"checks"`
	Kinds   []KindShare    `json:"passes_by_kind,omitempty"`
	// Simulations is the number of replays that the calibration took.
	Simulations int `json:"simulations"`
	Preemptions int `json:"preemptions"` // number in the last replays
	// Assumptions holds the assumptions of the replays, by key.
	Assumptions map[string]string `json:"assumptions,omitempty"`
}

// Check is the comparison of a fit with a set of requests.
type Check struct {
	Fitted  string   `json:"fitted_on"`
	Judged  string   `json:"judged_on"`
	HeldOut bool     `json:"held_out"`
	Form    string   `json:"form"`
	Errors  []Errors `json:"errors"` // by metric
	// Known is a known anomaly of the set, "" if there is none. A set with a known anomaly does not count.
	Known string `json:"known,omitempty"`

	run    int   // index of the run with the requests
	chosen []int // requests of a set that was fitted to as a whole or held out; nil for other sets
}

// Options holds the options of a calibration.
type Options struct {
	// Holdout is the share of requests that a second and a third fit leave out. The second fit leaves out the last
	// requests by arrival, and the third fit leaves out the first requests. If Holdout is 0, there is only one fit,
	// to all requests.
	Holdout float64
	Prompts *measured.Prompts // nil: prompts have no common prefixes
	// Replay, if not nil, replays a run on its servers with the router of its settings and the times of a profile.
	// The argument seed is the seed of random draws.
	Replay func(m *Measured, p *timing.Profile, seed uint64) (*harness.Result, error)
	// Reference makes the scheduler follow the rules of the reference instead of vLLM 0.19.
	Reference bool
	// Progress, if not nil, is called with the number of completed steps, from any goroutine. The steps are the
	// preparation of each run, the routing of all runs, each fit, and the profile.
	Progress func(done, total int)
}

// part is a named set of requests.
type part struct {
	name   string
	chosen []int
	left   slowdown // time that is not fitted to
	share  bool     // the part is a share of a set that is judged as a whole
}

// deciding returns the chosen requests if their errors can reject a fit. Only whole sets can, because a fit may omit
// some shares.
func (p *part) deciding(chosen []int) []int {
	if p.share {
		return nil
	}
	return chosen
}

// splitParts returns all requests. With a holdout, splitParts also returns all requests except the last requests, and
// all except the first requests. The result held has the corresponding held-out requests.
func splitParts(m *Measured, holdout float64) (fitted, held []part) {
	lead := m.judgedFrom()
	n := len(m.Requests) - lead
	span := func(name string, from, to int) part {
		p := part{name: name}
		for i := lead + from; i < lead+to; i++ {
			if !m.Requests[i].Cut {
				p.chosen = append(p.chosen, i)
			}
		}
		return p
	}
	fitted, held = []part{span(m.nameAll(), 0, n)}, []part{{}}
	if holdout > 0 {
		cut := int(math.Round(holdout * float64(n)))
		fitted = append(fitted, span(fmt.Sprintf("first %d", n-cut), 0, n-cut), span(fmt.Sprintf("last %d", n-cut), cut, n))
		held = append(held, span(fmt.Sprintf("last %d", cut), n-cut, n), span(fmt.Sprintf("first %d", cut), 0, cut))
	}
	return fitted, held
}

// withoutWarmUp returns the requests of p except for arrivals while the server warmed up or was slow.
func (p part) withoutWarmUp(m *Measured) []int {
	var kept []int
	for _, i := range p.chosen {
		if at := m.Requests[i].Arrival; at >= m.WarmUp() && !p.left.holds(at) {
			kept = append(kept, i)
		}
	}
	if len(kept) < measured.Fewest {
		return p.chosen
	}
	return kept
}

// judgedIn returns the requests of p for a judgement. If a client measured the run, the result does not include the
// warm-up.
func (p part) judgedIn(m *Measured) part {
	p.left = slowdown{} // the slowdown has a separate judgement
	if warm := p.withoutWarmUp(m); m.Client && m.Ignored == nil && len(warm) < len(p.chosen) {
		p.name, p.chosen = fmt.Sprintf("%s from %d s on", p.name, measured.ClientWarmUp), warm
	}
	return p
}

// Run calibrates to m. When ctx is done, Run stops and returns the error of ctx.
func Run(ctx context.Context, m *Measured, o Options) (*Result, error) {
	return RunAll(ctx, []*Measured{m}, o)
}

// countSteps returns a function that reports the end of one more step. The total number of steps is total.
func (o *Options) countSteps(total int) (end func()) {
	var done atomic.Int64
	return func() {
		if n := done.Add(1); o.Progress != nil {
			o.Progress(int(n), total)
		}
	}
}

// RunAll calibrates to several runs of one server together. When ctx is done, RunAll stops and returns the error of
// ctx.
func RunAll(ctx context.Context, runs []*Measured, o Options) (*Result, error) {
	if !(o.Holdout >= 0 && o.Holdout < 1) {
		return nil, fmt.Errorf("holdout is %v, must be a share from 0 to below 1", o.Holdout)
	}
	if err := checkAlike(runs); err != nil {
		return nil, err
	}
	all, err := listTrainings(runs, o.Holdout)
	if err != nil {
		return nil, err
	}
	r, endStep := &Result{}, o.countSteps(len(runs)+len(all)+2)
	sims := make([]*Simulation, len(runs))
	runs = slices.Clone(runs)
	for i := range runs {
		if runs[i], sims[i], err = prepareRun(ctx, runs[i], o); err != nil {
			return nil, err
		}
		r.addNotes(runs, i)
		endStep()
	}
	if r.Profile.Warmup, err = routeRuns(ctx, sims, runs, o, &all[0]); err != nil {
		return nil, err
	}
	endStep()
	r.noteEvents(runs)
	fits, err := fitAll(ctx, sims, runs, all, endStep)
	if err != nil {
		return nil, err
	}
	r.noteSlowdowns(runs, &all[0])
	r.notePaces(runs, &all[0])
	for i := range fits {
		r.Simulations += fits[i].runs
		before := len(r.Checks)
		if err := r.addChecks(sims, runs, &fits[i], &all[i], &all[0]); err != nil {
			return nil, err
		}
		if err := fits[i].checkStart(ctx, sims, runs, &all[i], r.Checks[before:]); err != nil {
			return nil, err
		}
	}
	err = r.makeProfile(ctx, sims, runs, &fits[0], all)
	endStep()
	return r, err
}

// prepareRun decides the open settings of a run and prepares the simulation of the run.
func prepareRun(ctx context.Context, m *Measured, o Options) (*Measured, *Simulation, error) {
	if o.Prompts == nil {
		o.Prompts = m.Prompts
	}
	m, err := decideOpen(ctx, m, o)
	if err != nil {
		return nil, nil, err
	}
	blocks, err := findBlocks(ctx, m, o)
	if err != nil {
		return nil, nil, err
	}
	m = m.withBlocks(blocks)
	if o.Reference {
		m.Settings.AddNote("the scheduler follows the reference's rules, not those of vLLM")
	}
	if o.Prompts == nil && m.Settings.PrefixCaching {
		m.Settings.AddNote("prompts are unknown: no two prompts share a prefix")
	}
	m.NoteSpeeds()
	sim, err := newSimulation(m, o.Prompts, o.Reference)
	if err != nil || m.Taken != nil || m.Settings.Pods < 2 || m.Settings.DataParallel > 1 {
		return m, sim, err
	}
	how := "the one with the least 4·waiting + running"
	if o.Replay != nil && m.isRouted() {
		how = "the one that the router's scorers choose in a replay"
	}
	m.Settings.AddNote("which of %d servers took which request is not told: %s", m.Settings.Pods, how)
	return m, sim, nil
}
