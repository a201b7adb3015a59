package plans

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/schedules"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/registry"
	"github.com/replay-llm/replay/loadgen/generate"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/html"
)

// hourly holds the flags of --by-hour.
type hourly struct {
	byHour    bool
	hpaTarget float64
	startup   time.Duration
	stream    bool
	begin     schedules.Begin
	quantile  float64
}

func (f *hourly) bind(fs *pflag.FlagSet) {
	fs.BoolVar(&f.byHour, "by-hour", false, "also plan the number of workers for each hour of the trace, and compare it with a fixed number and with HPA")
	fs.BoolVar(&f.stream, "stream", false, "with --by-hour: keep only a few hours of the trace in memory, and plan for the busiest hour")
	fs.Var(&f.begin, "trace-begins", "with --by-hour: `day` of the week and time of the first request, as \"Mon 08:00\"")
	fs.Float64Var(&f.quantile, "week-quantile", 1, "with --by-hour: `share` of the weeks in which the workers planned for an hour of the week must be enough")
	fs.DurationVar(&f.startup, "worker-startup", 0, "with --by-hour: startup `time` of a worker, also of HPA's workers")
	fs.Float64Var(&f.hpaTarget, "hpa-target", 0, "with --by-hour: target of HPA, a `number` of requests in flight per worker; 0: the value of the busiest hour")
}

// byHour is the schedule of the best variant of a plan.
type byHour struct {
	*schedules.ByHour
	settings string
	factor   float64        // factor on the pass times of the model
	cut      *schedules.Cut // with --stream
}

// openCut splits the trace of a choice into hours, and returns the busiest hour.
func (f *planFlags) openCut(ctx context.Context, env *surroundings, spec *replay.Spec) (*loadgen.Workload, *schedules.Cut, error) {
	t := spec.Trace
	if t == nil || t.Path == "" {
		return nil, nil, cli.Usagef("--stream requires a trace file")
	}
	o := formats.Options{
		TraceBlock: t.BlockTokens, LeftOpen: t.LeftOpen, SharedRatio: t.SharedRatio, Groups: t.Groups, Seed: spec.Seed,
		Stop: ctx.Err, Warn: env.Warn, Strict: true, Tasks: true, ReadLaw: generate.ReadDraw,
	}
	if !t.Detect {
		o.Format = t.Format
	}
	stream, err := registry.OpenPath(t.Path, env.In, o)
	if err != nil {
		return nil, nil, err
	}
	cut, err := schedules.CutTrace(stream, schedules.CutOptions{Speedup: spec.Speedup, Growth: f.growth, Seed: spec.Seed, Classes: spec.Classes})
	if err = errors.Join(err, stream.Close()); err != nil {
		return nil, nil, err
	}
	w, err := cut.OpenBusiest(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, cut.Close())
	}
	return w, cut, nil
}

// closeCuts removes the files of traces that are not in memory.
func (r *planRunner) closeCuts() error {
	var all []error
	for _, cut := range r.cuts {
		if cut != nil {
			all = append(all, cut.Close())
		}
	}
	return errors.Join(all...)
}

// checkHours rejects workloads that do not cover several hours.
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
	if cut := r.cuts[best.Variant]; cut != nil {
		h.cut = cut
		h.ByHour, err = own.FindCut(ctx, cut, best.Shape)
		return h, err
	}
	h.ByHour, err = own.Find(ctx, plan.Grow(r.samples[best.Variant][0](), f.growth, r.seed), best.Shape)
	return h, err
}

// scheduleOf returns the schedule that replays a variant hour by hour, with the pass times of a hard resample.
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
		Begin: f.begin, Quantile: f.quantile,
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
	text := p.hours.Format(p.headHours(), p.flags.most, p.wrapText)
	if cut := p.hours.cut; cut != nil {
		text = p.wrapText(fmt.Sprintf("The plan above is of hour %d, the busiest by tokens (--stream).\n", cut.Busiest())) + text
	}
	return text
}

// headHours returns the heading of the schedule.
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
	hours, ways := html.Grid{Title: p.headHours() + p.hours.NameRows()}, html.Grid{Title: "Ways to size the cluster"}
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
