package calibrate

import (
	"context"
	"fmt"
	"math"

	"golang.org/x/sync/errgroup"

	"github.com/replay-llm/replay/scheduler/timing"
)

// Result is what a calibration found.
type Result struct {
	Profile timing.Profile `json:"profile"`
	Run     string         `json:"run"`
	Notes   []string       `json:"notes"` // what was assumed
	Checks  []Check        `json:"checks"`
	// Simulations is the number of replays of the run that it took.
	Simulations int `json:"simulations"`
	Preemptions int `json:"preemptions"` // in the last of them
}

// Check is a fit held to a set of requests.
type Check struct {
	Fitted  string   `json:"fitted_on"`
	Judged  string   `json:"judged_on"`
	HeldOut bool     `json:"held_out"`
	Form    string   `json:"form"`
	Errors  []Errors `json:"errors"` // by metric
}

// Options are the choices of a calibration.
type Options struct {
	// Holdout is the share of requests, by arrival, that a second and a third fit
	// do not see: the last ones and the first ones. 0: there is one fit, to all.
	Holdout float64
	Prompts *Prompts // nil: no two prompts begin alike
	// Reference makes the scheduler follow the rules of the reference instead of
	// those of vLLM 0.19.
	Reference bool
}

// part is a set of requests by name.
type part struct {
	name   string
	chosen []int
}

// splitParts returns all requests, and with a holdout those that are left
// without the last ones and the first ones, each followed by what was left out
// of it.
func splitParts(m *Measured, holdout float64) (fitted, held []part) {
	lead, n := m.Lead, len(m.Requests)-m.Lead
	span := func(name string, from, to int) part {
		p := part{name: name}
		for i := lead + from; i < lead+to; i++ {
			p.chosen = append(p.chosen, i)
		}
		return p
	}
	fitted, held = []part{span("all", 0, n)}, []part{{}}
	if holdout > 0 {
		cut := int(math.Round(holdout * float64(n)))
		fitted = append(fitted, span(fmt.Sprintf("first %d", n-cut), 0, n-cut), span(fmt.Sprintf("last %d", n-cut), cut, n))
		held = append(held, span(fmt.Sprintf("last %d", cut), n-cut, n), span(fmt.Sprintf("first %d", cut), 0, cut))
	}
	return fitted, held
}

// withoutWarmUp returns p without what arrived while the server warmed up.
func (p part) withoutWarmUp(m *Measured) []int {
	var kept []int
	for _, i := range p.chosen {
		if m.Requests[i].Arrival >= warmUp {
			kept = append(kept, i)
		}
	}
	if len(kept) < fewest {
		return p.chosen
	}
	return kept
}

// Run calibrates to m. It stops early, with ctx's error, when ctx is done.
func Run(ctx context.Context, m *Measured, o Options) (*Result, error) {
	if !(o.Holdout >= 0 && o.Holdout < 1) {
		return nil, fmt.Errorf("holdout is %v, want a share from 0 to below 1", o.Holdout)
	}
	fittedOn, held := splitParts(m, o.Holdout)
	for i := range fittedOn {
		if i > 0 && min(len(fittedOn[i].chosen), len(held[i].chosen)) < fewest/2 {
			return nil, fmt.Errorf("holdout is %v of %d requests, want at least %d on both sides", o.Holdout, len(m.Requests), fewest/2)
		}
	}
	if o.Prompts == nil {
		o.Prompts = m.Prompts
	}
	m, err := decideOpen(ctx, m, o)
	if err != nil {
		return nil, err
	}
	blocks, err := findBlocks(ctx, m, o)
	if err != nil {
		return nil, err
	}
	m = m.withBlocks(blocks)
	sim, err := NewSimulation(m, o.Prompts, o.Reference)
	if err != nil {
		return nil, err
	}
	fits, err := fitAll(ctx, sim, m, fittedOn)
	if err != nil {
		return nil, err
	}
	r := &Result{Run: m.Name, Notes: m.Settings.Notes}
	if o.Reference {
		r.Notes = append(r.Notes, "the scheduler follows the reference's rules, not those of vLLM")
	}
	if o.Prompts == nil && m.Settings.PrefixCaching {
		r.Notes = append(r.Notes, "prompts are not told: none is taken to begin like another")
	}
	for i, f := range fits {
		r.Simulations += f.runs
		if err := r.addChecks(sim, m, &f, fittedOn[i], held[i]); err != nil {
			return nil, err
		}
	}
	return r, r.makeProfile(sim, m, &fits[0])
}

// fitAll fits to each part. The fits know nothing of each other, so that they
// may run side by side.
func fitAll(ctx context.Context, sim *Simulation, m *Measured, all []part) ([]fitted, error) {
	fits := make([]fitted, len(all))
	var g errgroup.Group
	for i := range all {
		g.Go(func() (err error) {
			fits[i], err = fitTarget(ctx, sim, newTarget(m, all[i].withoutWarmUp(m)))
			return err
		})
	}
	return fits, g.Wait()
}

// addChecks holds a fit to what it was fitted to, and to what it was not.
func (r *Result) addChecks(sim *Simulation, m *Measured, f *fitted, on, held part) error {
	var out Outcome
	if err := sim.Run(&f.parameters, &out, nil); err != nil {
		return err
	}
	add := func(judged part, heldOut bool) {
		if len(judged.chosen) > 0 {
			r.Checks = append(r.Checks, Check{on.name, judged.name, heldOut, f.form.Name, judgeOutcome(m, judged.chosen, &out)})
		}
	}
	add(on, false)
	add(held, true)
	if len(held.chosen) > 0 {
		return nil
	}
	r.Preemptions = out.Preemptions
	quick, slow := splitBySaturation(m)
	add(part{"all, at once", quick}, false)
	add(part{"all, queued", slow}, false)
	return nil
}
