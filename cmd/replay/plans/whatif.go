package plans

import (
	"context"
	"fmt"
	"slices"

	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/report/slo"
)

// whatIf holds the need of the recommended settings with another limit of one objective.
type whatIf struct {
	name   string // of what differs
	shape  plan.Shape
	found  bool
	gpus   int
	hourly float64 // 0: no price
}

// Factors of the changed limits.
const (
	tighter = 0.8
	looser  = 1.25
)

// listWhatIfs returns copies of the objectives of a plan with one change each: a tighter or looser limit, or the time
// between tokens as a mean per request instead of all gaps pooled, or the reverse.
func (f *planFlags) listWhatIfs() (names []string, changed [][]slo.Objective) {
	for i, o := range f.slo.All {
		add := func(name string, change func(*slo.Objective)) {
			all := slices.Clone(f.slo.All)
			change(&all[i])
			names, changed = append(names, name), append(changed, all)
		}
		for _, share := range []float64{tighter, looser} {
			limit := share * o.LimitMS
			add(fmt.Sprintf("%s within %s instead of %s", o.Title(), formatTime(limit, "ms"), formatTime(o.LimitMS, "ms")), func(o *slo.Objective) { o.LimitMS = limit })
		}
		if other := map[string]string{"itl": "tpot", "tpot": "itl"}[o.Metric]; other != "" {
			swapped := o
			swapped.Metric = other
			add(fmt.Sprintf("%s instead of %s, within %s", swapped.Title(), o.Title(), formatTime(o.LimitMS, "ms")), func(o *slo.Objective) { o.Metric = other })
		}
	}
	return names, changed
}

// findWhatIf finds the need of the best variant of a plan for each change of its objectives.
func (f *planFlags) findWhatIf(ctx context.Context, r *planRunner, found *plan.Plan) ([]whatIf, error) {
	if found.Best < 0 {
		return nil, nil
	}
	best := &found.Answers[found.Best]
	v := found.Variants[best.Variant]
	if v.Near = best.Shape; best.Confident != nil && best.Confident.Found {
		v.Near = best.Confident.Shape
	}
	i := best.Variant
	names, changed := f.listWhatIfs()
	var all []whatIf
	for k, objectives := range changed {
		flags := *f
		flags.slo.All = objectives
		own := &planRunner{flags: &flags, choices: r.choices[i : i+1], samples: r.samples[i : i+1], factors: r.factors[i : i+1], env: r.env, slots: r.slots}
		p, err := plan.Find(ctx, plan.Config{
			Run: own.run, Variants: []plan.Variant{v}, Most: f.most, Precision: f.precision, Resamples: f.resamples, Confidence: f.confidence, Cores: f.cores,
			Brief: true, Progress: r.env.show,
		})
		if err != nil {
			return nil, err
		}
		w := whatIf{name: names[k], found: p.Best >= 0}
		if a := &p.Answers[0]; w.found {
			if w.shape = a.Shape; a.Confident != nil {
				w.shape, w.found = a.Confident.Shape, a.Confident.Found
			}
			w.gpus, w.hourly = p.GPUs(0, w.shape), p.PerHour(0, w.shape)
		}
		all = append(all, w)
	}
	return all, nil
}

// describe returns the answer in words.
func (w *whatIf) describe() string {
	switch {
	case !w.found:
		return w.name + ": no number of workers that was tried"
	case w.hourly > 0:
		return fmt.Sprintf("%s: %s (%s, %.2f an hour)", w.name, countGPUs(w.gpus), w.shape, w.hourly)
	}
	return fmt.Sprintf("%s: %s (%s)", w.name, countGPUs(w.gpus), w.shape)
}

// describeWhatIfs returns a line for each answer.
func (p *planSheet) describeWhatIfs() []string {
	lines := make([]string, len(p.whatIfs))
	for i := range p.whatIfs {
		lines[i] = p.whatIfs[i].describe()
	}
	return lines
}

// whatIfDocument is the JSON form of a whatIf.
type whatIfDocument struct {
	Change string `json:"change"`
	needDocument
}

func (p *planSheet) whatIfDocuments() []whatIfDocument {
	var all []whatIfDocument
	for i := range p.whatIfs {
		w := &p.whatIfs[i]
		all = append(all, whatIfDocument{w.name, needDocument{w.found, w.shape.Workers, w.shape.Prefill, w.shape.Decode, w.gpus, w.hourly}})
	}
	return all
}
