package plans

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/replay-llm/replay/internal/cmd/choices"
	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/cmd/runs"
	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay/engines"
)

// search holds the settings that a plan varies by default if a GPU and a model are given.
type search struct {
	choices.Space
	budget  time.Duration
	replays int
	begun   time.Time
}

// mostKinds is the maximum number of kinds for which a search finds the best choices. The best choice of all is
// planned in full, and also the best choices of kinds that could need less.
const mostKinds = 4

// searches reports whether a plan chooses settings by default: a GPU and a model are given, and no values to try.
func (f *planFlags) searches(o *options.Options) bool {
	return o.Changed("gpu") && o.Changed("model") && len(f.try) == 0 && !f.search.IsNone() &&
		o.FirstChanged("workers", "prefill-workers", "decode-workers", "compat", "deployment", "worker-speed") == "" && firstOfTwoPools(o) == ""
}

// listSearched returns all choices of a search.
func (f *planFlags) listSearched(o *options.Options, file string) ([]chosen, error) {
	f.search.Topology = f.topology.Value
	listed, err := f.search.List(o)
	if err != nil {
		return nil, err
	}
	all := make([]chosen, len(listed))
	alone := sync.OnceValue(func() error { return f.checkAlone(o, file) })
	for i := range listed {
		l, c := &listed[i], &all[i]
		if *c, err = f.tryChoice(o, file, l.Settings, l.Split); cli.IsUsage(err) && len(f.search.Axes()) > 1 {
			if err := alone(); err != nil {
				return nil, err
			}
			c.variant.Refused = err // these values do not go together
		} else if err != nil {
			return nil, err
		}
		v := &c.variant
		v.Name, v.Kind, v.Single, v.Changes = l.Name, l.Kind, l.Single, l.Changes
	}
	return all, nil
}

// checkAlone rejects values in --vary that their flags do not accept.
func (f *planFlags) checkAlone(o *options.Options, file string) error {
	gpu, _, _ := strings.Cut(choices.GPUs(o)[0], ",")
	for _, axis := range f.search.Axes() {
		if axis.Name == choices.Topology {
			continue
		}
		for _, value := range axis.Values {
			if _, err := f.tryChoice(o, file, []plan.Setting{{Name: "gpu", Value: gpu}, {Name: axis.Name, Value: value}}, options.IsOfTwoPools(axis.Name, []string{axis.Name})); err != nil {
				return err
			}
		}
	}
	return nil
}

// narrowChoices finds the choices to plan in full, and limits the runner to them.
func (f *planFlags) narrowChoices(ctx context.Context, r *planRunner) (*searched, error) {
	c := plan.Narrowing{
		Config: plan.Config{Run: r.run, Most: f.most, Cores: f.cores, Progress: r.env.show},
		Keep:   mostKinds, Parts: r.listParts(), Hard: r.hardSample(),
		Watch: func(at plan.Stage) { r.env.watch(r.stageOf(at)) },
		Stop:  func(replays int) bool { return f.search.replays > 0 && replays >= f.search.replays },
	}
	if err := r.refuseSmall(); err != nil {
		return nil, err
	}
	for _, choice := range r.choices {
		c.Variants = append(c.Variants, choice.variant)
	}
	within, cancel := ctx, context.CancelFunc(func() {})
	if f.search.budget > 0 {
		within, cancel = context.WithDeadline(ctx, f.search.begun.Add(f.search.budget))
	}
	found, err := plan.Narrow(within, c)
	cancel()
	if found == nil {
		return nil, err
	}
	if ctx.Err() == nil {
		err = nil // the time is over, and the plan continues with what was found
	}
	for i := range r.choices {
		r.choices[i].variant.Refused = c.Variants[i].Refused
	}
	if refused := refuseSearched(c.Variants); refused != nil {
		return nil, refused
	}
	s := &searched{Narrowed: found, choices: slices.Clone(r.choices), workload: r.countRequests(), hard: c.Hard > 0}
	if err != nil {
		return s, err
	}
	if len(found.Kept) == 0 && found.Nearest == nil && found.Stopped {
		return nil, fmt.Errorf("--time-budget=%v: the search of %s ended before its first replay: more time is required", f.search.budget, countChoices(len(r.choices)))
	}
	if len(found.Kept) == 0 && found.Nearest != nil {
		r.keep([]int{found.Nearest.Variant})
	}
	if len(found.Kept) > 0 {
		r.keep(found.Kept)
		for i, m := range found.At {
			r.choices[i].variant.Near = m.Shape
		}
	}
	return s, nil
}

// refuseSmall refuses the choices with caches that are too small for a request of the workload. A stretch of the
// search may lack this request.
func (r *planRunner) refuseSmall() error {
	for i := range r.choices {
		c := &r.choices[i]
		if c.variant.Refused != nil || c.spec.Reject {
			continue
		}
		stages, err := engines.NewStages(&c.spec.Topology, engines.Use{})
		if err != nil {
			return err
		}
		if err := engines.CheckSizes(r.samples[i][0](), stages); err != nil {
			c.variant.Refused = runs.ExplainError(err)
		}
	}
	return nil
}

// sessionsOfFirst is the approximate number of sessions in the stretch of the first round.
const sessionsOfFirst = 500

// listParts returns the stretches of the rounds of a search: from a few hundred sessions to all sessions.
func (r *planRunner) listParts() []int {
	first := 0
	for i := range r.samples {
		if r.samples[i] != nil {
			first = max(first, bits.Len(uint(len(r.samples[i][0]().Sessions)/sessionsOfFirst))-1)
		}
	}
	return slices.Compact([]int{max(first, 0), max(first, 0) / 2, 0})
}

// refuseSearched returns the different reasons if no choice can run.
func refuseSearched(all []plan.Variant) error {
	var reasons []string
	for i := range all {
		if all[i].Refused == nil {
			return nil
		}
		if text := all[i].Refused.Error(); !slices.Contains(reasons, text) {
			reasons = append(reasons, text)
		}
	}
	if len(reasons) == 1 {
		return all[0].Refused
	}
	return cli.Usagef("no choice of settings can run: %s", strings.Join(reasons, "; "))
}

// countRequests returns the number of requests of the workload.
func (r *planRunner) countRequests() int {
	for _, samples := range r.samples {
		if samples != nil {
			return len(samples[0]().Turns)
		}
	}
	return 0
}

// keep drops all choices except those in kept.
func (r *planRunner) keep(kept []int) {
	choices, samples, factors := r.choices, r.samples, r.factors
	r.choices, r.samples, r.factors = nil, nil, nil
	var tasks []plan.Task
	for _, i := range kept {
		r.choices, r.samples, r.factors = append(r.choices, choices[i]), append(r.samples, samples[i]), append(r.factors, factors[i])
		if r.journal != nil {
			tasks = append(tasks, r.journal.tasks[i])
		}
	}
	if r.journal != nil {
		r.journal.tasks = tasks
	}
}

// hardSample returns the resample that a choice must meet before it is planned: the resample with the longest passes
// among the resamples that the target requires. hardSample returns 0 without resamples.
func (r *planRunner) hardSample() int {
	f := r.flags
	if f.resamples == 0 || f.confidence == 0 {
		return 0
	}
	i := slices.IndexFunc(r.factors, func(of []float64) bool { return of != nil })
	if i < 0 {
		return 0
	}
	order := make([]int, f.resamples)
	for k := range order {
		order[k] = k + 1
	}
	factors := r.factors[i]
	stable.Sort(order, func(a, b int) int {
		switch x, y := factors[a-1], factors[b-1]; {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	need := int(math.Ceil(f.confidence*float64(f.resamples) - 1e-9))
	return order[max(need, 1)-1]
}
