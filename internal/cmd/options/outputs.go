package options

import (
	"cmp"
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/report/rundir"
	"github.com/replay-llm/replay/report/slo"
	"github.com/replay-llm/replay/report/summary"
	"github.com/replay-llm/replay/report/timeline"
	"github.com/replay-llm/replay/sim"
)

// output has the flags for the report.
type output struct {
	Path    string
	Form    cli.Choice
	wide    bool
	Watch   Watching
	Drawing drawing
}

func (out *output) bindFlags(fs *pflag.FlagSet) {
	out.Form = cli.Choice{Names: []string{"table", "json"}, Value: "table"}
	fs.StringVar(&out.Path, "report-json", "", "also write the report to `FILE`; if it is a directory, to a file in it that is named by the time")
	fs.Var(&out.Form, "output", "`form` of the output: table or json")
	fs.BoolVar(&out.wide, "wide", false, "print all columns, wider than 80 characters")
	out.Watch.bindFlag(fs)
	out.Drawing.bindFlags(fs)
}

// Outputs holds the flags for what a run writes besides its report.
type Outputs struct {
	Requests         string
	Metrics, OTLP    string // paths of files for other tools; "": none
	KVEvents         string
	Caches           SavedCaches
	Dir              string
	Form             cli.Choice
	overwrite, force bool
	Digest, Passes   bool
	Slo              Objectives
	Attainment       float64
	SloExit          bool
	Names            cli.Choice
	Regret           regretFlags
}

func (out *Outputs) bindFlags(fs *pflag.FlagSet) {
	out.Form = cli.Choice{Names: []string{"parquet", "jsonl", "csv"}, Value: "parquet"}
	out.Names = cli.Choice{Names: summary.Names(), Value: "native"}
	fs.Var(&out.Names, "report-format", "`names` of the values in the JSON report: native, or as in the load generators aiperf, vllm\nor sglang")
	fs.StringVar(&out.Requests, "requests", "", "write one row per request to `FILE`, in the format of its extension: .parquet, .arrow, .jsonl or .csv")
	fs.StringVar(&out.Metrics, "metrics", "", "write the values of the report to `FILE`, as OpenMetrics text")
	fs.StringVar(&out.OTLP, "otlp", "", "write one span per request and stage to `FILE`, as OTLP JSON; time 0 of the run is a date in 2020")
	fs.StringVar(&out.KVEvents, "kv-events-file", "", "write events of stored and removed KV blocks to `FILE`, one line of JSON per event")
	fs.Var(&out.Caches, "save-caches", "write the prefix caches at the end of the run to `FILE`; FILE,at=30m: at this time (docs/sweep.md)")
	fs.StringVar(&out.Dir, "out", "", "write report, requests and records to a new `DIR`")
	fs.Var(&out.Form, "requests-format", "`form` of the requests in --out: parquet, jsonl or csv")
	fs.BoolVar(&out.overwrite, "overwrite", false, "allow --out to replace another run")
	fs.BoolVar(&out.force, "force", false, "allow --out to replace any file or directory")
	fs.BoolVar(&out.Passes, "passes", false, "also write every pass to --out")
	fs.BoolVar(&out.Digest, "digest", false, "print a hash of the inputs, the configuration and the times of each request")
	out.Regret.bindFlags(fs)
}

// BindGroup adds the flags for a directory that contains several run directories.
func (out *Outputs) BindGroup(fs *pflag.FlagSet) {
	out.Form = cli.Choice{Names: []string{"parquet", "jsonl", "csv"}, Value: "parquet"}
	fs.StringVar(&out.Dir, "out", "", "write report, requests and records of each future to a new `DIR`")
	fs.Var(&out.Form, "requests-format", "`form` of the requests in --out: parquet, jsonl or csv")
	fs.BoolVar(&out.Passes, "passes", false, "also write every pass to --out")
	fs.Var(&out.Slo, "slo", "latency `objectives`, with --out: p99:ttft=2s over all requests, ttft=500ms,itl=30ms for each request")
	fs.Float64Var(&out.Attainment, "slo-attainment", 1, "`share` of requests that must meet --slo")
}

func (out *Outputs) bindObjectives(fs *pflag.FlagSet) {
	fs.Var(&out.Slo, "slo", "latency `objectives`: p99:ttft=2s over all requests, ttft=500ms,itl=30ms for each request")
	fs.Float64Var(&out.Attainment, "slo-attainment", 1, "`share` of requests that must meet --slo")
	fs.BoolVar(&out.SloExit, "slo-exit", false, "exit with code 6 if an objective is missed")
}

// Objectives is the value of a flag such as --slo.
type Objectives struct {
	All  []slo.Objective
	text string
}

func (o *Objectives) String() string { return o.text }
func (o *Objectives) Type() string   { return "objectives" }

// Beginnings returns beginnings of objectives for shell completion.
func (o *Objectives) Beginnings() []string {
	return []string{"p99:ttft=", "p95:ttft=", "p50:ttft=", "p99:itl=", "p99:e2e=", "mean:ttft=", "ttft=", "itl=", "tpot=", "e2e="}
}

func (o *Objectives) Set(text string) error {
	all, err := slo.Parse(text)
	if err != nil {
		return errors.New("must be objectives: " + err.Error())
	}
	*o = Objectives{all, text}
	return nil
}

// CheckOutputs returns an error for flags without effect and for outputs that cannot be written.
func (o *Options) CheckOutputs(spec *replay.Spec) error {
	out := &o.Outputs
	if err := o.Check(
		cli.Needs(out.Dir != "", "with --out", "requests-format", "overwrite", "force", "passes"),
		cli.Needs(len(out.Slo.All) > 0, "with --slo", "slo-attainment", "slo-exit"),
		cli.Needs(o.Changed("report-json") || o.Output.Form.Value == "json", "with --report-json or --output json", "report-format"),
		cli.Needs(o.Output.Form.Value == "table", "with --output table", "wide"),
		cli.Needs(!o.IsLive() && !o.IsCluster(), "with --mode offline", "watch"),
		cli.Wants(!o.Changed("kv-events-file") || out.KVEvents != "", "kv-events-file", "the name of a file"),
		cli.Wants(out.Attainment >= 0 && out.Attainment <= 1, "slo-attainment", "0 to 1"),
	); err != nil {
		return err
	}
	if err := cmp.Or(o.checkStreamed(spec), o.checkRegret(spec), o.checkSaved(spec)); err != nil {
		return err
	}
	if out.Requests != "" {
		if _, err := requests.FormatOf(out.Requests); err != nil {
			return o.Refuse("requests", "a name that ends in .parquet, .arrow, .jsonl or .csv")
		}
	}
	if out.Dir != "" {
		return rundir.Check(out.Dir, out.Replace())
	}
	return nil
}

// TableForm returns the format of the report table.
func (o *Options) TableForm() collector.Form {
	switch {
	case o.Output.wide:
		return collector.Wide
	case o.Reference || o.compat != "":
		return collector.Reference
	}
	return collector.Narrow
}

// Replace returns the kinds of existing paths that --out may replace.
func (out *Outputs) Replace() rundir.Replace {
	switch {
	case out.force:
		return rundir.ReplaceAnything
	case out.overwrite:
		return rundir.ReplaceRun
	}
	return rundir.ReplaceNothing
}

// RecordOnly configures a run to write only a run directory, including passes, regardless of other flags.
func (o *Options) RecordOnly(dir string) {
	o.RecordIn(dir)
	if f := o.Set.Lookup("requests-format"); f != nil {
		f.Changed = false
	}
	out := &o.Outputs
	out.Passes, out.Digest, out.Form.Value = true, false, "parquet"
}

// OtherOutputs returns the flags for outputs other than a run directory, and the flags for replacing files.
func OtherOutputs() []string {
	return []string{
		"output", "wide", "watch", "report-json", "report-format", "requests", "metrics", "otlp", "overwrite", "force", "slo-exit", "kv-events-file", "save-caches",
		"timeline", "timeline-from", "timeline-to", "timeline-request", "regret", "regret-sample", "regret-horizon",
	}
}

// RecordIn configures a run to write only a run directory. Flags for the contents of the directory apply.
func (o *Options) RecordIn(dir string) {
	for _, name := range OtherOutputs() {
		if f := o.Set.Lookup(name); f != nil {
			f.Changed = false
		}
	}
	out := &o.Outputs
	out.Requests, out.Dir, out.Caches = "", dir, SavedCaches{}
	out.Metrics, out.OTLP = "", ""
	out.overwrite, out.force, out.SloExit, out.Regret.Wanted = false, false, false, false
	out.Names.Value, o.Output.Form.Value = "native", "table"
}

// drawing has the flags for a timeline.
type drawing struct {
	Path     string
	from, to cli.Instant
	request  string
}

func (d *drawing) bindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&d.Path, "timeline", "", "write the timeline of all workers to `FILE`, for Perfetto")
	fs.Var(&d.from, "timeline-from", "omit events that end before this `time` of the run's clock")
	fs.Var(&d.to, "timeline-to", "omit events that begin at or after this `time` of the run's clock")
	fs.StringVar(&d.request, "timeline-request", "", "write the timeline of one `REQUEST` only: its id, or :LINE of the trace")
}

// Cut returns the range and the request filter of a timeline.
func (o *Options) Cut() (timeline.Options, error) {
	d := &o.Output.Drawing
	cut := timeline.Options{From: d.from.At, To: d.to.At}
	given := o.Changed("timeline")
	err := o.Check(
		cli.Needs(given, "with --timeline", "timeline-from", "timeline-to", "timeline-request"),
		cli.Wants(!given || d.Path != "", "timeline", "the name of a file"),
		cli.Wants(!o.Changed("timeline-to") || d.to.At > d.from.At, "timeline-to", "more than --timeline-from"),
	)
	if err != nil || !o.Changed("timeline-request") {
		return cut, err
	}
	if cut.Request, err = parseChoice(d.request); err != nil {
		return cut, o.Refuse("timeline-request", err.Error())
	}
	return cut, nil
}

// parseChoice parses the id of a request, or a line of the trace after a colon. The name of a file may precede the
// colon.
func parseChoice(text string) (*timeline.Choice, error) {
	colon := strings.LastIndexByte(text, ':')
	n, err := strconv.ParseInt(text[colon+1:], 10, 32)
	switch {
	case err == nil && colon < 0 && n >= 0:
		return &timeline.Choice{ID: sim.RequestID(n)}, nil
	case err == nil && colon >= 0 && n >= 1:
		return &timeline.Choice{Line: int32(n)}, nil
	}
	return nil, errors.New("the id of a request, or :LINE of the trace")
}
