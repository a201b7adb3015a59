package plans

import (
	"context"
	"fmt"

	"github.com/replay-llm/replay/internal/cmd/schedules"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/html"
)

// byHour is the schedule of the best variant of a plan.
type byHour struct {
	*schedules.ByHour
	settings string
	factor   float64 // by which passes take longer than the model says
}

// checkHours refuses workloads that do not cover several hours.
func (r *planRunner) checkHours() error {
	for i := range r.choices {
		if r.choices[i].variant.Refused == nil {
			if err := schedules.CheckCover(r.samples[i][0](), r.choices[i].spec.Speedup); err != nil {
				return err
			}
		}
	}
	return nil
}

// planHours finds the smallest cluster of each hour with the settings of the best variant.
func (f *planFlags) planHours(ctx context.Context, r *planRunner, found *plan.Plan) (*byHour, error) {
	if found.Best < 0 {
		return nil, nil
	}
	best := &found.Answers[found.Best]
	h := &byHour{settings: found.Variants[best.Variant].Name}
	var own *schedules.Runner
	own, h.factor = f.scheduleOf(r, best.Variant)
	var err error
	h.ByHour, err = own.Find(ctx, plan.Grow(r.samples[best.Variant][0](), f.growth, r.seed), best.Shape)
	return h, err
}

// scheduleOf returns what replays a variant hour by hour, with the pass times of a hard resample.
func (f *planFlags) scheduleOf(r *planRunner, variant int) (*schedules.Runner, float64) {
	c, factor := r.choices[variant], 1.0
	if k := r.hardSample(); k > 0 && r.factors[variant] != nil {
		factor = r.factors[variant][k-1]
		c.spec = slowDown(c.spec, factor)
	}
	c.spec.Topology = c.spec.WithEngines(func(a *engineargs.Args) { a.StartupSeconds = f.startup.Seconds() })
	alone := *f
	alone.growth = 1 // the workload has it
	return &schedules.Runner{
		Spec: c.spec, Variant: c.variant, Most: f.most, Cores: f.cores, Precision: f.precision, Startup: f.startup, HPATarget: f.hpaTarget, Progress: r.env.show,
		Resize: func(s plan.Shape) replay.Topology { return c.clusterOf(s) },
		Points: func(part *loadgen.Workload) plan.Run {
			own := &planRunner{flags: &alone, choices: []chosen{c}, env: r.env, slots: r.slots, samples: [][]func() *loadgen.Workload{{func() *loadgen.Workload { return part }}}}
			return own.run
		},
		Judge: func(result *harness.Result, w *loadgen.Workload) (plan.Measure, error) {
			return measureOf(result, w, f)
		},
	}, factor
}

// formatHours returns the schedule in words, "" without one.
func (p *planSheet) formatHours() string {
	if p.hours == nil {
		return ""
	}
	return p.hours.Format(p.headHours(), p.flags.most, p.wrapText)
}

// headHours returns what the schedule is of.
func (p *planSheet) headHours() string {
	h, head := p.hours, "By hour"
	if h.settings != "" {
		head += ", " + h.settings
	}
	if growth := p.flags.growth; growth != 1 {
		head += fmt.Sprintf(", with %g times the requests in each hour", growth)
	}
	if h.factor != 1 {
		head += fmt.Sprintf(", with pass times %+.0f%%", 100*(h.factor-1))
	}
	return head
}

// hourGrids returns the schedule as tables of a page.
func (p *planSheet) hourGrids() []html.Grid {
	if p.hours == nil {
		return nil
	}
	hours, ways := html.Grid{Title: p.headHours()}, html.Grid{Title: "Ways to size the cluster"}
	hours.Head, hours.Rows = p.hours.HourRows()
	ways.Head, ways.Rows = p.hours.WayRows()
	return []html.Grid{hours, ways}
}

func (p *planSheet) byHourDocument() *schedules.Document {
	if p.hours == nil {
		return nil
	}
	return p.hours.Document(p.hours.settings, p.hours.factor)
}
