package plans

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/cmd/replay/ceilings"
	"github.com/replay-llm/replay/internal/cmd/choices"
	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/cmd/runs"
	"github.com/replay-llm/replay/internal/cmd/schedules"
	"github.com/replay-llm/replay/internal/cmd/sweeps"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/report/slo"
	"github.com/replay-llm/replay/router/policy"
)

// planFlags are the flags of replay plan that replay trace does not have.
type planFlags struct {
	slo        options.Objectives
	attainment float64
	try        []string
	topology   cli.Choice
	most       int
	gpus       int
	cost       float64
	currency   string
	precision  float64
	resamples  int
	confidence float64
	modelError float64
	front      bool
	cores      int
	form       cli.Choice
	wide       bool
	journal    string
	document   string // file for what --output json prints
	survive    survival
	search     search
	whatIf     bool
	growth     float64
	zones      int
	files      sweeps.TableFiles
	candidates string // file for a row per choice of settings
	emission   emission
	hourly
	pooling pooling
}

func (f *planFlags) bindFlags(fs *pflag.FlagSet) {
	f.topology = cli.Choice{Names: []string{"aggregated", "disaggregated", "both"}, Value: "aggregated"}
	fs.Var(&f.slo, "slo", "latency `objectives`: p99:ttft=2s over all requests, ttft=500ms,itl=30ms for each request")
	fs.Float64Var(&f.attainment, "slo-attainment", 1, "`share` of requests that must meet --slo")
	fs.StringArrayVar(&f.try, "try", nil, "flag and values to try, as `tp=2,4`; repeatable")
	fs.StringArrayVar(&f.search.Vary, "vary", nil, "settings that the plan chooses: `names`, or a flag with values (tp=2,4); none: no settings; repeatable (default: all that are not given)")
	fs.StringSliceVar(&f.search.Fix, "fix", nil, "`names` of settings that the plan does not choose (see --vary)")
	fs.StringSliceVar(&f.search.Allow, "allow", nil, "`names` of weight precisions that the plan may choose, such as fp8")
	fs.DurationVar(&f.search.budget, "time-budget", time.Minute, "`time` limit of the search for settings, which then reports the best settings found; 0: no limit")
	fs.IntVar(&f.search.replays, "replays", 0, "maximum `number` of replays in the search for settings; 0: no limit")
	fs.Float64Var(&f.growth, "growth", 1, "plan for `R` times the load of the trace")
	fs.BoolVar(&f.whatIf, "what-if", false, "also plan with tighter and looser limits of each objective, to show its cost")
	fs.Var(&f.topology, "topology", "worker `pools` to plan: aggregated, disaggregated, or both to compare them")
	fs.IntVar(&f.most, "max-workers", 256, "maximum `number` of workers to try")
	fs.Var(&f.survive, "survive", "`number` of workers that may fail, or zone")
	fs.IntVar(&f.zones, "zones", 3, "`number` of zones that the workers are spread over, with --survive zone")
	fs.IntVar(&f.gpus, "gpus-per-worker", 0, "number of `GPUs` per worker; 0: computed from --tp, --pp and --dp, or read from the timing profile")
	fs.Float64Var(&f.cost, "gpu-cost", 0, "`price` of one GPU for one hour, in any currency")
	fs.StringVar(&f.currency, "currency", "USD", "`name` of the currency that web pages show")
	fs.StringVar(&f.candidates, "candidates", "", "also write a row for each combination of settings to `FILE` (.csv)")
	fs.Float64Var(&f.precision, "precision", 0.01, "accepted relative `error` of the highest load")
	fs.IntVar(&f.resamples, "resamples", 20, "`number` of bootstrap resamples of the workload; 0: no confidence intervals")
	fs.Float64Var(&f.confidence, "confidence", 0.95, "`share` of the resampled workloads in which the objectives must be met; 0: only the recorded workload counts")
	fs.Float64Var(&f.modelError, "model-error", -1, "assumed relative `error` of pass times, as 0.1: in nine of ten resamples, passes are at most this share longer or shorter;\n-1: chosen by the source of pass times: the errors of published servers if these are known for the GPU and model, else 0.1 for a\nfitted profile, 0.15 for data sheets of dense models on one GPU, and 0.5 for other models")
	fs.BoolVar(&f.front, "front", true, "also replay clusters of other sizes, and other loads")
	fs.IntVar(&f.cores, "jobs", runtime.NumCPU(), "`number` of replays that run in parallel; the result does not depend on it")
	cli.BindForm(fs, &f.form)
	cli.BindOldJSON(fs, &f.form)
	fs.BoolVar(&f.wide, "wide", false, "print all columns, wider than 80 characters")
	f.files.Bind(fs)
	f.emission.bind(fs)
	f.pooling.bind(fs)
	f.hourly.bind(fs)
	fs.StringVar(&f.document, "report-json", "", "also write the output of --output json to `FILE`")
	fs.StringVar(&f.journal, "journal", "", "record finished replays in `FILE`, and reuse the replays recorded there")
}

// NewPlanCommand returns the command plan, which finds the smallest cluster that meets objectives.
func NewPlanCommand(s cli.Streams) *cobra.Command {
	o, f := &options.Options{}, &planFlags{}
	cmd := newPlanCommand(o, f)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		file, err := options.TraceFile(args)
		if err != nil {
			return err
		}
		return runPlan(cmd.Context(), s, o, f, file)
	}
	return cmd
}

// newPlanCommand returns the command with its flags and without a run function.
func newPlanCommand(o *options.Options, f *planFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan [FILE] --slo OBJECTIVES",
		Short: "Find the smallest cluster that meets objectives",
		Long: `Find the smallest cluster that meets latency objectives on a workload, and the
highest load that it can serve. With --model and one or more --gpu the plan also
chooses settings. With --workers the size of the cluster is fixed.`,
		Example: `  replay plan requests.jsonl --slo p99:ttft=2s --gpu h100 --model llama-3.1-8b
  replay plan requests.jsonl --slo p99:ttft=2s --try tp=2,4 --topology both`,
	}
	o.BindReplay(cmd, cli.NewGroup("Plan", f.bindFlags, "slo", "slo-attainment", "vary", "try", "survive", "gpu-cost", "output", "out"))
	options.OfferSettings(cmd, nil, "try")
	options.OfferSettings(cmd, choices.Names(), "vary")
	return cmd
}

// runPlan searches and prints the result.
func runPlan(ctx context.Context, s cli.Streams, o *options.Options, f *planFlags, file string) (err error) {
	if err := f.checkFlags(o); err != nil {
		return err
	}
	if err := f.pooling.check(o, file); err != nil {
		return err
	}
	if f.pooling.isWanted() {
		return f.runPool(ctx, s, o)
	}
	if f.journal != "" && file == "-" {
		return cli.Usagef("--journal requires the name of a trace file, which can be recognized when the plan is run again")
	}
	cli.ManyReplays()
	progress := cli.NewProgress(s.Err, "replays")
	sheet, err := f.findSheet(ctx, newSurroundings(s, progress), o, file)
	progress.Clear()
	if err != nil {
		if sheet != nil { // the search was interrupted
			_, wrong := io.WriteString(s.Out, sheet.narrowed.formatInterrupted())
			return errors.Join(err, wrong)
		}
		return err
	}
	if sheet.emitted, err = sheet.emit(); err != nil {
		return err
	}
	if err := cmp.Or(f.files.Write(sheet.fileForms()), sheet.writeCandidates(), sheet.writeEmitted(s)); err != nil {
		return err
	}
	return sheet.write(s.Out)
}

// findSheet finds a plan with all its printed parts. If the search is interrupted, it returns the error and a sheet
// of the results so far.
func (f *planFlags) findSheet(ctx context.Context, env *surroundings, o *options.Options, file string) (sheet *planSheet, err error) {
	list := f.listChoices
	if f.searches(o) {
		list = f.listSearched
	}
	choices, err := list(o, file)
	if err != nil {
		return nil, err
	}
	warnings := slices.Clone(o.Config.Overruled)
	for i := range choices {
		if choices[i].variant.Refused != nil {
			continue
		}
		warnings = append(append(warnings, choices[i].spec.Warnings()...), choices[i].overruled...)
	}
	if warning := o.WarnInterval(); warning != "" {
		warnings = append(warnings, warning)
	}
	slices.Sort(warnings)
	for _, warning := range slices.Compact(warnings) {
		env.Warn(warning)
	}
	runner, err := newPlanRunner(ctx, env, f, choices, o.Seed)
	if err != nil {
		return nil, runs.ExplainError(err)
	}
	defer func() { err = errors.Join(err, runner.closeCuts()) }()
	if f.byHour && !f.stream {
		if err := runner.checkHours(); err != nil {
			return nil, err
		}
	}
	if f.journal != "" {
		if runner.journal, err = newPlanJournal(f, choices, o.Seed); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, runner.journal.file.Close()) }()
	}
	f.search.begun = time.Now()
	sheet = &planSheet{flags: f, runner: runner, command: env.Args, inputs: f.listSettings(o, file)}
	if f.searches(o) && len(choices) > 1 {
		if sheet.hopeless, err = f.refuseSearch(ctx, runner); err != nil {
			return nil, err
		}
		if sheet.hopeless == nil {
			sheet.narrowed, err = f.narrowChoices(ctx, runner)
		}
	}
	switch {
	case err != nil && sheet.narrowed != nil:
		return sheet, err
	case err != nil:
		return nil, err
	}
	if err := sheet.find(ctx); err != nil {
		return nil, err
	}
	return sheet, nil
}

// find fills the sheet.
func (p *planSheet) find(ctx context.Context) (err error) {
	f, runner := p.flags, p.runner
	c := plan.Config{
		Run: runner.run, Most: f.most, Precision: f.precision,
		Resamples: f.resamples, Confidence: f.confidence, Front: f.front, Cores: f.cores, Progress: runner.env.show,
	}
	if p.hopeless == nil && (p.narrowed == nil || p.narrowed.Nearest != nil) {
		if p.hopeless, err = f.refuseHopeless(ctx, runner); err != nil {
			return err
		}
	}
	if p.hopeless != nil {
		c.Resamples, c.Confidence, c.Front = 0, 0, false // more is not worth its time
	}
	if p.narrowed != nil && p.narrowed.Nearest != nil { // more workers do not help
		c.Most = min(c.Most, max(2, p.narrowed.Nearest.Shape.Size()))
	}
	for _, choice := range runner.choices {
		c.Variants = append(c.Variants, choice.variant)
	}
	draft, err := plan.Begin(ctx, c)
	if err != nil {
		return err
	}
	p.plan = draft.Plan
	best := p.shownAnswer()
	if p.plan.Best < 0 && c.Variants[best.Variant].Fixed.Size() == 0 {
		if p.reachable, err = f.findReachable(ctx, runner, p.plan, best); err != nil {
			return err
		}
	}
	if p.bounds, err = f.findBounds(ctx, runner, p.plan, best); err != nil {
		return err
	}
	begun := *p.plan                                                          // Finish replaces the measures of p.plan
	err = plan.Each(ctx, 2, 2, func(ctx context.Context, i int) (err error) { // the runner limits the number of replays at once
		if i == 0 {
			return draft.Finish(ctx)
		}
		p.sources, err = f.findSources(ctx, runner, &begun, best)
		return err
	})
	if err != nil {
		return err
	}
	if f.whatIf {
		if p.whatIfs, err = f.findWhatIf(ctx, runner, p.plan); err != nil {
			return err
		}
	}
	if f.byHour {
		p.hours, err = f.planHours(ctx, runner, p.plan)
	}
	return err
}

func (f *planFlags) checkFlags(o *options.Options) error {
	if err := o.Config.Apply(o); err != nil {
		return err
	}
	if err := f.files.Check(); err != nil {
		return err
	}
	if err := cmp.Or(cmp.Or(f.checkCandidates(), f.search.Check(o)), f.emission.check(o)); err != nil {
		return err
	}
	if len(f.slo.All) == 0 {
		return cli.Usagef("--slo is required: the objectives that the cluster must meet, as --slo p99:ttft=2s,p99:itl=50ms")
	}
	counted := o.FirstChanged("workers", "prefill-workers", "decode-workers")
	return cmp.Or(
		o.CheckLeast(1, "max-workers", "jobs", "zones"), o.CheckLeast(0, "gpus-per-worker", "confidence", "model-error"), o.CheckLeast(0, "gpu-cost", "resamples", "hpa-target"), o.CheckLeast(1e-6, "precision", "growth"),
		o.Check(
			cli.Wants(f.attainment >= 0 && f.attainment <= 1, "slo-attainment", "0 to 1"),
			cli.Wants(f.confidence <= 1, "confidence", "0 to 1"),
			cli.Wants(f.modelError < 1, "model-error", "below 1"),
			cli.Needs(false, "with replay trace: a plan searches for a cluster of a constant size", "scale", "autoscale"),
			cli.Needs(false, "with replay trace: --survive sets the failures of the plan", "faults"),
			cli.Needs(f.searches(o), "with --gpu and --model and without --try, a number of workers or --vary none, where the plan chooses settings", "fix", "allow", "replays", "time-budget"),
			cli.Needs(f.searches(o) || f.search.IsNone(), "with --gpu and --model and without --try or a number of workers, where the plan chooses settings", "vary"),
			cli.Needs(f.searches(o) || !strings.Contains(strings.Join(choices.GPUs(o), ","), ","), "with one GPU where the plan chooses no settings", "gpu"),
			cli.Needs(f.survive.text == "zone", "with --survive zone", "zones"),
			cli.Needs(false, "with replay trace and replay concurrency: a plan searches for a cluster that answers all requests", "retry", "retry-backoff", "client-timeout"),
			cli.Needs(!slices.ContainsFunc(f.slo.All, func(x slo.Objective) bool { return x.Statistic != "" }), "with objectives of each request alone, as --slo ttft=2s, for which a request that is shed has missed them: percentiles and means are of answered requests", "admission"),
			cli.Needs(f.form.Value != "json", "without --output json", "wide"),
			cli.Needs(counted == "", "without a number of workers", "topology", "by-hour"),
			cli.Needs(f.survive.text == "", "without --survive", "by-hour"),
			cli.Needs(!o.Changed("max-in-flight"), "without --max-in-flight: hours are those of an open loop", "by-hour"),
			cli.Needs(f.byHour, "with --by-hour", "hpa-target", "stream", "trace-begins", "week-quantile"),
			cli.Wants(f.quantile > 0 && f.quantile <= 1, "week-quantile", "above 0, up to 1"),
			cli.Needs(f.byHour || f.pooling.isWanted(), "with --by-hour or --gpus", "worker-startup"),
			cli.Wants(f.startup >= 0 && f.startup < time.Hour, "worker-startup", "a time of less than an hour"),
			cli.Needs(counted != "" || f.topology.Value != "aggregated" || firstOfTwoPools(o) == "", "with --topology disaggregated or both, or with --prefill-workers and --decode-workers", firstOfTwoPools(o)),
			cli.Wants(f.topology.Value == "aggregated" || f.most >= 2, "max-workers", "at least 2 with --topology "+f.topology.Value),
		))
}

// chosen is one variant of a plan.
type chosen struct {
	variant  plan.Variant
	spec     replay.Spec // except the numbers of workers and the load
	settings []plan.Setting

	overruled []string // of its deployments, by flags
}

// listChoices returns all variants.
func (f *planFlags) listChoices(o *options.Options, file string) ([]chosen, error) {
	axes := make([]plan.Axis, 0, len(f.try))
	for _, text := range f.try {
		axis, err := options.ParseAxis("try", text)
		if err != nil {
			return nil, err
		}
		switch axis.Name {
		case "workers", "prefill-workers", "decode-workers":
			if axis.Name == "workers" && f.topology.Value == "aggregated" && !slices.ContainsFunc(axis.Values, isNumber) {
				break // mixes, which are used unchanged
			}
			return nil, cli.Usagef("--try=%s: the number of workers is searched for, or given by --%s", text, axis.Name)
		}
		axes = append(axes, axis)
	}
	splits := []bool{f.topology.Value == "disaggregated" || o.TwoPools()}
	if f.topology.Value == "both" {
		splits = []bool{false, true}
	}
	var all []chosen
	for _, cell := range (&plan.Grid{Axes: axes}).Cells() {
		for _, split := range splits {
			settings := cell.Settings
			if len(splits) > 1 {
				settings = splitSettings(settings, split)
			}
			name := choices.NameOf(settings, split, len(splits) > 1)
			if !split && len(settings) < len(cell.Settings) && hasVariant(all, name) {
				continue
			}
			c, err := f.tryChoice(o, file, settings, split)
			if err != nil {
				return nil, err
			}
			c.variant.Name = name
			all = append(all, c)
		}
	}
	return all, nil
}

// tryChoice is chooseVariant for one of several variants. If the variant does not fit its GPUs, it is refused and the
// other variants may run. tryChoice uses the GPUs and the price of the command line.
func (f *planFlags) tryChoice(o *options.Options, file string, settings []plan.Setting, split bool) (chosen, error) {
	c, err := f.chooseVariant(o, file, settings, split)
	switch {
	case errors.As(err, new(*options.UnfitError)):
		c.variant.Refused = err
	case err != nil:
		return c, err
	}
	if f.gpus > 0 && c.isMixed() {
		return c, o.Only("gpus-per-worker", "with workers that are all alike")
	} else if f.gpus > 0 {
		c.variant.GPUs, c.variant.CountGPUs = f.gpus, nil
	}
	if f.cost > 0 {
		c.variant.Price, c.variant.PricePerHour = f.cost, nil
	}
	return c, nil
}

// listSettings returns the given flags, the trace, and the values that are tried.
func (f *planFlags) listSettings(o *options.Options, file string) []plan.Setting {
	all := o.Settings()
	if file != "" {
		all = append(all, plan.Setting{Name: options.TraceSetting, Value: file})
	}
	for _, text := range f.try {
		all = append(all, plan.Setting{Name: "try", Value: text})
	}
	return all
}

// withoutList returns the settings without a list of several GPUs. A variant has one GPU of the list.
func withoutList(all []plan.Setting) []plan.Setting {
	return slices.DeleteFunc(slices.Clone(all), func(s plan.Setting) bool { return s.Name == "gpu" && strings.Contains(s.Value, ",") })
}

// chooseVariant returns the variant with the given settings in addition to those of the command line.
func (f *planFlags) chooseVariant(o *options.Options, file string, settings []plan.Setting, split bool) (chosen, error) {
	var c chosen
	all := append(withoutList(o.Settings()), settings...)
	if f.topology.Value == "both" {
		all = splitSettings(all, split)
	}
	given := o.FirstChanged("workers", "prefill-workers", "decode-workers") != "" ||
		slices.ContainsFunc(settings, func(s plan.Setting) bool { return s.Name == "workers" })
	c.variant.Split = split
	switch {
	case given:
	case split:
		all = append(all, sizedAs(all, "prefill-", 1)...)
		all = append(all, sizedAs(all, "decode-", 1)...)
	default:
		all = append(all, sizedAs(all, "", 2)...)
	}
	own, _, mode, err := options.OptionsOf(all)
	if err != nil {
		return c, err
	}
	c.settings = all
	if file != "" {
		c.settings = append(c.settings, plan.Setting{Name: options.TraceSetting, Value: file})
	}
	if c.spec, err = own.Spec(file, mode); err != nil {
		return c, err
	}
	switch {
	case given && own.TwoPools():
		c.variant.Fixed = plan.Two(own.Cluster.PrefillWorkers, own.Cluster.DecodeWorkers)
	case given:
		c.variant.Fixed = plan.One(own.Cluster.Workers)
	}
	c.overruled = own.Config.Overruled
	return c, c.countGPUs()
}

// planRunner runs points of a plan. Resamples are generated on first use.
type planRunner struct {
	flags   *planFlags
	choices []chosen
	samples [][]func() *loadgen.Workload // by variant; variants of one workload share them
	env     *surroundings
	seed    uint64
	factors [][]float64      // factors on pass times, by variant and resample
	journal *planJournal     // nil: results are not stored
	parts   sync.Map         // workloads of stretches that are replayed alone, by stretch
	slots   chan struct{}    // limit of replays at once, shared by all searches of a plan
	cuts    []*schedules.Cut // by variant, of a trace that is not in memory
}

// stretch is a part of a workload.
type stretch struct {
	of   *loadgen.Workload
	part int
}

// stretchOf returns the workload of a point.
func (r *planRunner) stretchOf(p plan.Point) *loadgen.Workload {
	w := r.samples[p.Variant][p.Sample]()
	if p.Part == 0 {
		return w
	}
	once, _ := r.parts.LoadOrStore(stretch{w, p.Part}, sync.OnceValue(func() *loadgen.Workload { return plan.Stretch(w, p.Part) }))
	return once.(func() *loadgen.Workload)()
}

func newPlanRunner(ctx context.Context, env *surroundings, f *planFlags, choices []chosen, seed uint64) (*planRunner, error) {
	r := &planRunner{flags: f, choices: choices, env: env, seed: seed, slots: make(chan struct{}, f.cores), cuts: make([]*schedules.Cut, len(choices))}
	seen, cuts := map[string][]func() *loadgen.Workload{}, map[string]*schedules.Cut{}
	for _, c := range choices {
		if c.variant.Refused != nil {
			r.samples, r.factors = append(r.samples, nil), append(r.factors, nil)
			continue
		}
		key := plan.WorkloadKey(&c.spec)
		if seen[key] == nil {
			var w *loadgen.Workload
			var err error
			if f.stream {
				w, cuts[key], err = f.openCut(ctx, env, &c.spec)
			} else {
				w, err = env.open(ctx, &c.spec)
			}
			if err != nil {
				return nil, err
			}
			resampler := plan.NewResampler(w, seed)
			for k := range f.resamples + 1 {
				seen[key] = append(seen[key], sync.OnceValue(func() *loadgen.Workload { return resampler.Sample(k) }))
			}
		}
		r.samples, r.cuts[len(r.samples)] = append(r.samples, seen[key]), cuts[key]
		r.factors = append(r.factors, passFactors(f.resamples, f.modelErrorOf(&c.spec), seed))
	}
	return r, nil
}

// run returns the measure of a point, from the journal if it is there.
func (r *planRunner) run(ctx context.Context, p plan.Point) (plan.Measure, error) {
	if m, ok := r.journal.findMeasure(p); ok {
		return m, nil
	}
	r.slots <- struct{}{}
	defer func() { <-r.slots }()
	m, err := r.replaySurviving(ctx, p)
	if err != nil {
		return m, err
	}
	return m, r.journal.addMeasure(p, &m)
}

// replayPoint replays a point on a cluster and compares it with the objectives.
func (r *planRunner) replayPoint(ctx context.Context, p plan.Point, cluster engines.Topology) (plan.Measure, error) {
	return r.replayWatched(ctx, p, cluster, nil)
}

// replayWatched is replayPoint with an observer of the requests, which may be nil.
func (r *planRunner) replayWatched(ctx context.Context, p plan.Point, cluster engines.Topology, look *watched) (plan.Measure, error) {
	spec := r.choices[p.Variant].spec
	p.Load *= r.flags.growth
	spec.Topology = cluster
	if len(cluster.Pools) == 1 && cluster.Pools[0].Count == 1 {
		if policy.IsListed(spec.Router) {
			spec.Router = policy.RoundRobin // there is nothing to route
		}
		spec.Signals = spec.Signals.Only(spec.ListSignals())
	}
	if spec.Mode == loadgen.Concurrency {
		spec.MaxInFlight = max(1, int(float64(spec.MaxInFlight)*p.Load+0.5))
	} else {
		spec.Speedup *= p.Load
		spec.Window = spec.Window.Divide(p.Load) // of the same requests
	}
	if p.Sample > 0 {
		spec = slowDown(spec, r.factors[p.Variant][p.Sample-1])
	}
	w := r.stretchOf(p)
	if err := slo.CheckClasses(r.flags.slo.All, w.Classes); err != nil {
		return plan.Measure{}, err
	}
	streams := replay.Streams{Opened: func(replayed *loadgen.Workload) { w = replayed }}
	if look != nil {
		observer, err := look.begin(&spec, len(w.Turns))
		if err != nil {
			return plan.Measure{}, err
		}
		streams.Observer = observer
	}
	result, err := spec.RunOn(ctx, w, streams)
	if errors.As(err, new(*engines.OversizeError)) {
		return plan.Measure{}, &plan.CannotRunError{Err: runs.ExplainError(err)}
	} else if err != nil {
		return plan.Measure{}, err
	}
	if err := ceilings.RefuseShed(result, &spec); err != nil {
		return plan.Measure{}, err
	}
	if n := result.Report.ClippedRequests; n > 0 { // clipped answers are shorter than requested
		return plan.Measure{}, &plan.CannotRunError{Err: fmt.Errorf("%d answers are shortened by %d tokens, which the pools cannot hold", n, result.Report.ClippedTokens)}
	}
	m, err := measureOf(result, w, r.flags)
	if err != nil {
		return m, &plan.CannotRunError{Err: err}
	}
	if result.Collector.Window().IsSet() {
		m.Window = result.Collector.CountWindow().String()
	}
	if spec.Admission != nil {
		by, _ := result.Collector.Outcomes()
		m.Shed, m.Arrived = by[collector.Shed], result.Collector.Len()
	}
	m.Requests = len(w.Turns)
	holdStable(&m, result, &spec, p.Load/r.flags.growth)
	if look != nil {
		look.end(result, w)
	}
	return m, nil
}

// sharedName is the name of the objective value for per-request limits.
const sharedName = "requests that meet theirs"

// measureOf returns the values of a replay that a plan needs. measureOf returns an error if no cluster can meet an
// objective, because too many requests are rejected.
func measureOf(result *harness.Result, w *loadgen.Workload, f *planFlags) (plan.Measure, error) {
	report, objectives := result.Report, f.slo.All
	single := slices.ContainsFunc(objectives, func(o slo.Objective) bool { return o.Statistic == "" })
	var rows []requests.Row
	switch {
	case slo.AreOfClasses(objectives):
		rows = requests.Collect(result.Collector, runs.PlacesIn(w), nil, nil)
	case single:
		rows = requests.Collect(result.Collector, nil, nil, nil)
	}
	outcome := slo.Judge(objectives, f.attainment, rows, result)
	m := plan.Measure{
		Met: outcome.Holds(), Missed: outcome.Missed(),
		RequestsPerS: report.RequestsPerS, OutputTokensPerS: report.OutputTokensPerS,
		TotalTokensPerS: report.TotalTokensPerS, PrefixReusedRatio: report.PrefixCacheReusedRatio,
		Rejected: result.CountRejected(), Capped: report.CappedRequests,
	}
	if single {
		m.Values = append(m.Values, plan.Value{
			Name: sharedName, Unit: "share", Value: outcome.Attainment, Limit: outcome.Target,
			Met: outcome.Attainment >= outcome.Target,
		})
		for _, c := range outcome.Classes {
			m.Values = append(m.Values, plan.Value{Name: c.Name + ": " + sharedName, Unit: "share", Value: c.Attainment, Limit: outcome.Target, Met: c.Attainment >= outcome.Target})
		}
	}
	for _, j := range outcome.Objectives {
		if j.Rejected > 0 {
			return m, fmt.Errorf("%d of %d requests are rejected, first %s: %v; %s cannot be met", m.Rejected, report.Requests, result.Rejected[0].Place, result.Rejected[0].Err, j.Name())
		}
		other := map[string]string{"itl": "tpot", "tpot": "itl"}[j.Metric]
		if value, ok := slo.FindStatistic(result, j.Statistic, other); ok && j.Class == "" {
			m.Others = append(m.Others, plan.Value{Name: j.Statistic + " " + other, Unit: "ms", Value: value, Limit: j.LimitMS, Met: value <= j.LimitMS})
		}
		if j.Statistic != "" {
			m.Values = append(m.Values, plan.Value{
				Name: j.Name(), Unit: "ms", Value: j.ValueMS, Limit: j.LimitMS, Met: j.Met,
			})
		}
	}
	return m, nil
}
