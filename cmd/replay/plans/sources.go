package plans

import (
	"context"
	"fmt"
	"slices"

	"github.com/replay-llm/replay/plan"
)

// source holds the need of the recommended settings if only one source of uncertainty differs from the trace as
// recorded.
type source struct {
	key, name string
	shape     plan.Shape
	found     bool
}

// findSources finds the needs of the best answer with each single source of uncertainty. findSources returns no
// source if there is only one source, or if no cluster is recommended.
func (f *planFlags) findSources(ctx context.Context, r *planRunner, found *plan.Plan, a *plan.Answer) ([]source, error) {
	c := a.Confident
	i := a.Variant
	model := f.modelErrorOf(&r.choices[i].spec)
	if c == nil || !c.Found || found.Variants[i].Fixed.Size() > 0 || !model.isGiven() && f.growth == 1 {
		return nil, nil
	}
	find := func(ctx context.Context, s *source, ask func(*planRunner, *plan.Config)) error {
		flags := *f
		flags.growth = 1
		own := &planRunner{flags: &flags, choices: slices.Clone(r.choices[i : i+1]), samples: r.samples[i : i+1], factors: [][]float64{slices.Repeat([]float64{1}, f.resamples)}, env: r.env, slots: r.slots}
		v := found.Variants[i]
		if v.Near = a.Shape; !a.Found || s.key == "pass_times" { // the resamples with the longest passes
			v.Near = c.Shape
		}
		config := plan.Config{Run: own.run, Variants: []plan.Variant{v}, Most: f.most, Precision: f.precision, Cores: f.cores, Brief: true, Progress: r.env.show}
		ask(own, &config)
		p, err := plan.Find(ctx, config)
		if err != nil {
			return err
		}
		s.shape, s.found = p.Answers[0].Shape, p.Answers[0].Found
		if sure := p.Answers[0].Confident; sure != nil {
			s.shape, s.found = sure.Shape, sure.Found
		}
		return nil
	}
	var all []source
	var asks []func(*planRunner, *plan.Config) // queries of each source
	add := func(key, name string, ask func(*planRunner, *plan.Config)) {
		all, asks = append(all, source{key: key, name: name, shape: a.Shape, found: a.Found}), append(asks, ask)
	}
	if f.growth == 1 {
		add("none", "the trace as recorded", nil) // the answer contains it
	} else {
		add("none", "the trace as recorded", func(*planRunner, *plan.Config) {})
	}
	add("arrivals", "arrivals redrawn", func(own *planRunner, config *plan.Config) {
		config.Resamples, config.Confidence = f.resamples, f.confidence
		if f.growth == 1 {
			config.Run = reuseRecorded(found, i, own.run)
		}
	})
	if model.isGiven() {
		// With shorter passes, more of the same requests meet the objectives. So only the factor of the target
		// resample is needed.
		factor := r.factors[i][r.hardSample()-1]
		add("pass_times", fmt.Sprintf("pass times %v", model), func(own *planRunner, _ *plan.Config) {
			own.choices[0].spec = slowDown(own.choices[0].spec, factor)
		})
	}
	if f.growth != 1 {
		add("growth", fmt.Sprintf("%g times the load", f.growth), nil)
	}
	err := plan.Each(ctx, len(all), f.cores, func(ctx context.Context, k int) error {
		if asks[k] == nil {
			return nil
		}
		return find(ctx, &all[k], asks[k])
	})
	if err != nil {
		return nil, err
	}
	return append(all, source{"all", "all of them", c.Shape, true}), nil
}

// reuseRecorded returns run with a cache of the plan's measures of a variant on the trace as recorded.
func reuseRecorded(found *plan.Plan, variant int, run plan.Run) plan.Run {
	known := map[plan.Point]*plan.Measure{}
	for k := range found.Measures {
		if m := &found.Measures[k]; m.Variant == variant && m.Sample == 0 {
			at := m.Point
			at.Variant = 0
			known[at] = m
		}
	}
	return func(ctx context.Context, p plan.Point) (plan.Measure, error) {
		if m := known[p]; m != nil {
			own := *m
			own.Point = p
			return own, nil
		}
		return run(ctx, p)
	}
}

// sourcesTitle is the heading of the needs of each source of uncertainty.
const sourcesTitle = "What each source of uncertainty alone needs:"

// describeSources returns a line for each source of uncertainty.
func (p *planSheet) describeSources() []string {
	lines, last := make([]string, len(p.sources)), len(p.sources)-1
	variant := p.shownAnswer().Variant
	for i := range p.sources {
		s := &p.sources[i]
		needs := "no size that was tried"
		if s.found {
			needs = fmt.Sprintf("%s (%s%s)", countGPUs(p.plan.GPUs(variant, s.shape)), s.shape, p.formatCostPerHour(variant, s.shape))
		}
		lines[i] = s.name + ": " + needs + lines[i]
		if size := s.shape.Size(); i < last && s.found && size > p.sources[last].shape.Size() {
			lines[last] = "; the resamples with the longest passes have fewer requests, and raising --resamples evens this out"
		}
	}
	return lines
}

// formatCostPerHour returns the cost of a cluster for one hour, "" without a price.
func (p *planSheet) formatCostPerHour(variant int, shape plan.Shape) string {
	if hour := p.plan.PerHour(variant, shape); hour > 0 {
		return fmt.Sprintf(", %.2f an hour", hour)
	}
	return ""
}

// needDocument is the JSON form of a need.
type needDocument struct {
	Found   bool    `json:"found"`
	Workers int     `json:"workers,omitempty"`
	Prefill int     `json:"prefill_workers,omitempty"`
	Decode  int     `json:"decode_workers,omitempty"`
	GPUs    int     `json:"gpus,omitempty"`
	PerHour float64 `json:"cost_per_hour,omitempty"`
}

// sourceDocument is the JSON form of the needs with one source of uncertainty.
type sourceDocument struct {
	Source string `json:"source"` // none, arrivals, pass_times, growth or all
	needDocument
}

func (p *planSheet) sourceDocuments() []sourceDocument {
	var all []sourceDocument
	variant := p.shownAnswer().Variant
	for i := range p.sources {
		s := &p.sources[i]
		d := sourceDocument{Source: s.key}
		if s.found {
			d.needDocument = needDocument{true, s.shape.Workers, s.shape.Prefill, s.shape.Decode, p.plan.GPUs(variant, s.shape), p.plan.PerHour(variant, s.shape)}
		}
		all = append(all, d)
	}
	return all
}
