// Package calibrations holds the commands calibrate, which fits pass times to a real server, and validate, which
// compares replays with a real server.
//
// Read calibrate.go, then validate.go with sides.go; warmup.go is a flag of both.
package calibrations

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/calibrate"
	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/cmd/runs"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/html"
	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/timing"
)

// calibration holds the flags of replay calibrate.
type calibration struct {
	prompts string
	block   int
	holdout float64
	profile string
	blocks  int
	atOnce  int // requests in flight
	gpu     string
	engine  cli.Choice
	model   string
	pair    string // directory of the measurements of KV transfers
	file    string // of the deployment
	form    cli.Choice
	rules   cli.Choice
	warmup  warmup
	html    string // a page; "": none
}

// NewCalibrateCommand returns the command calibrate, which fits pass times to a measured run.
func NewCalibrateCommand(s cli.Streams) *cobra.Command {
	f := &calibration{}
	cmd := &cobra.Command{
		Use:   "calibrate [RUN...]",
		Short: "Fit pass times to a measured run of a real server",
		Long: `Fit the time of forward passes to the measured request times of a real server.
The fit replays the requests through the simulated scheduler many times.

Each RUN is one of:
  - a directory with requests.jsonl (arrival, admission, first and last token of
    each request), meta.json (settings of the server), and optionally
    timeseries.csv
  - a directory with the output of AIPerf, vllm bench serve or BLIS, and the log
    of the server
  - one of these files

A server with settings that are not simulated is rejected. Several runs of one
server at different loads are fitted together; each run is tested with a fit to
the other runs.

--timing-profile reads the profile. docs/calibration.md describes the errors,
and docs/accuracy.md lists the errors for measured servers.`,
		Example: `  replay calibrate runs/h100_llama-3.1-8b --holdout 0.5 --profile h100.json
  replay calibrate runs/h100_llama-3.1-8b --prompts prompts.jsonl
  replay calibrate runs/rate-5 runs/rate-8 --gpu h100 --profile h100.json
  replay calibrate --transfers runs/pair --model llama-3.1-8b
  replay trace requests.jsonl --timing-profile h100.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 && f.pair == "" {
				return cli.Usagef("calibrate: no arguments, expected the directory of a run, or of several of one server")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), s, args) },
	}
	return cli.BindGroups(cmd, cli.NewGroup("Flags", f.bindFlags,
		"holdout", "profile", "prompts", "gpu", "model", "engine", "deployment", "transfers", "warmup", "html", "output"))
}

func (f *calibration) bindFlags(fs *pflag.FlagSet) {
	f.form = cli.Choice{Names: []string{"text", "json"}, Value: "text"}
	f.rules = cli.Choice{Names: []string{"vllm", "reference"}, Value: "vllm"}
	fs.StringVar(&f.prompts, "prompts", "", "`file` of shared prompt prefixes: one line per request, in order, with input_length and hash_ids")
	fs.IntVar(&f.block, "prompt-block-size", 16, "number of `tokens` per hash id in --prompts")
	fs.Float64Var(&f.holdout, "holdout", 0, "`share` of held-out requests: a fit to all other requests is tested on the last requests, and another fit on the first")
	fs.StringVar(&f.profile, "profile", "", "write the profile to `FILE`")
	fs.IntVar(&f.blocks, "num-gpu-blocks", 0, "number of KV `blocks` of the server, if meta.json lacks it")
	fs.IntVar(&f.atOnce, "max-in-flight", 0, "number `K` of requests in flight in a closed loop, if no file of the run has it")
	f.engine = cli.Choice{Names: []string{"vllm", "sglang", "trtllm"}}
	fs.Var(&f.engine, "engine", "engine of the server, by `name`: vllm, sglang or trtllm, if the run lacks it")
	fs.StringVar(&f.gpu, "gpu", "", "GPU of the server, by `name`, if the run lacks it")
	fs.StringVar(&f.pair, "transfers", "", "`directory` of measured KV transfers from prefill to decode servers (logs, metrics or requests); without RUN, only transfers are fitted")
	fs.StringVar(&f.model, "model", "", "model of the server, by `name` or the path of its config.json, if the run lacks it or replay models does not list it")
	fs.StringVar(&f.file, "deployment", "", "YAML `file` of GPU, model and engine, written by replay init, for settings that meta.json lacks")
	fs.Var(&f.rules, "scheduler-profile", "rules of the simulated scheduler, by `name`: vllm (of the server's release) or reference (of dynamo.replay)")
	f.warmup.bind(fs)
	fs.StringVar(&f.html, "html", "", "write the errors, and measured against simulated times, to `FILE`, as a web page")
	fs.Var(&f.form, "output", "`form` of the result: text or json")
}

func (f *calibration) run(ctx context.Context, s cli.Streams, dirs []string) error {
	if f.blocks < 0 || f.block < 1 || f.atOnce < 0 {
		return cli.Usagef("--num-gpu-blocks=%d, --prompt-block-size=%d, --max-in-flight=%d: expected blocks of at least 1 token, and requests", f.blocks, f.block, f.atOnce)
	}
	known, err := f.readDeployment()
	if err != nil {
		return err
	}
	o := calibrate.Options{Holdout: f.holdout, Reference: f.rules.Value == "reference"}
	o.Replay = func(m *calibrate.Measured, p *timing.Profile, seed uint64) (*harness.Result, error) {
		return replayRun(ctx, m, p, seed)
	}
	if f.prompts != "" {
		if len(dirs) > 1 {
			return cli.Usagef("--prompts with %d runs: must be one run, since the file has its prompts", len(dirs))
		}
		if o.Prompts, err = measured.ReadPrompts(f.prompts, f.block); err != nil {
			return err
		}
	}
	if len(dirs) == 0 {
		return f.fitTransfers(s, known)
	}
	all, err := calibrate.ReadAll(dirs, f.blocks, known)
	if err != nil {
		return err
	}
	if err := f.warmup.apply(all...); err != nil {
		return err
	}
	bar := cli.NewProgress(s.Err, "steps")
	o.Progress = bar.Show
	r, err := calibrate.RunAll(ctx, all, o)
	bar.Clear()
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(dirs, ", "), err)
	}
	if f.pair != "" {
		told := all[0].Servers()
		maps.Copy(told, known)
		t, err := calibrate.FitTransfers(f.pair, told)
		if err != nil {
			return fmt.Errorf("--transfers: %w", err)
		}
		r.AddTransfers(t)
	}
	if f.profile != "" {
		if err := collector.WriteFile(f.profile, r.Profile.Write); err != nil {
			return fmt.Errorf("--profile: %w", err)
		}
	}
	assumed, err := assumedOf(all[0], &r.Profile)
	if err != nil {
		return err
	}
	if f.html != "" {
		if o.Prompts != nil {
			all[0].Prompts = o.Prompts
		}
		page, err := makeFitPage(ctx, all, r)
		if err != nil {
			return fmt.Errorf("--html: %w", err)
		}
		page.Answer.Facts = listRests(assumed, r.Notes, cli.QuoteCommand(s.Args))
		if err := collector.WriteFile(f.html, func(w io.Writer) error { return html.WriteSheet(w, page) }); err != nil {
			return fmt.Errorf("--html: %w", err)
		}
	}
	return f.write(s.Out, assumed, r)
}

// makeFitPage returns the page of a fit: the errors of held-out requests, and each run next to a replay with the
// profile.
func makeFitPage(ctx context.Context, all []*calibrate.Measured, r *calibrate.Result) (*html.SheetPage, error) {
	verdict, holds := r.Verdict()
	page := &html.SheetPage{Title: "Calibration to " + r.Run, Answer: &html.Answer{Verdict: verdict, Good: holds}}
	errors, held := newErrorGrid("Errors, simulated to measured"), calibrate.Judged{}
	for _, c := range r.Checks {
		name := fmt.Sprintf("fitted on %s, judged on %s", c.Fitted, c.Judged)
		if c.HeldOut {
			name += ", held out"
			held.Errors = append(held.Errors, c.Errors...)
		}
		addErrors(&errors, name, c.Errors)
	}
	if len(held.Errors) > 0 {
		worst := calibrate.FurthestMean([]calibrate.Judged{held})
		page.Answer.Number, page.Answer.Under = formatOff(worst.Mean), "mean "+worst.Metric+", the held-out mean that is furthest off"
	}
	parameters := html.Grid{Title: "Parameters of a pass", Head: []string{"", "value", "spread"}}
	for _, p := range r.Parameters() {
		value, _ := strconv.ParseFloat(fmt.Sprintf("%.4g", p.Value), 64)
		spread := fmt.Sprintf("%.1f %%", 100*p.Spread)
		if p.Loose {
			spread = "✗ " + spread + ", not identified: do not transfer"
		}
		parameters.Rows = append(parameters.Rows, []string{p.Name, strconv.FormatFloat(value, 'f', -1, 64), spread})
	}
	page.Answer.Grids = []html.Grid{errors, parameters}
	for _, m := range all {
		var result *harness.Result
		err := withProfile(m, &r.Profile, func(spec *replay.Spec, trace io.Reader) error {
			text, err := io.ReadAll(trace)
			if err == nil {
				result, err = replayMeasured(ctx, m, spec, text)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		c, err := m.Compare(result, nil)
		if err != nil {
			return nil, err
		}
		name := ""
		if len(all) > 1 {
			name = m.Name
		}
		addCompared(page, name, c)
	}
	return page, nil
}

// write prints a fit and the assumptions of its replays.
func (f *calibration) write(w io.Writer, assumed []engines.Assumption, r *calibrate.Result) error {
	if f.form.Value == "json" {
		r.Assumptions = runs.AssumptionsByKey(assumed)
		return cli.WriteJSON(w, r)
	}
	return cmp.Or(r.WriteText(w), runs.PrintAssumptions(w, assumed))
}

// assumedOf returns the assumptions of replays of a measured run by a fitted profile, except the profile.
func assumedOf(m *calibrate.Measured, p *timing.Profile) (all []engines.Assumption, err error) {
	err = withProfile(m, p, func(spec *replay.Spec, _ io.Reader) error {
		all = slices.DeleteFunc(spec.Assumptions(), func(a engines.Assumption) bool { return strings.HasSuffix(a.Key, "pass_times") })
		return nil
	})
	return all, err
}

// fitTransfers fits only the times of KV transfers.
func (f *calibration) fitTransfers(s cli.Streams, known map[string]any) error {
	if f.profile != "" || f.prompts != "" || f.holdout != 0 || f.html != "" {
		return cli.Usagef("--profile, --prompts, --holdout and --html: with --transfers they require a RUN")
	}
	t, err := calibrate.FitTransfers(f.pair, known)
	if err != nil {
		return fmt.Errorf("--transfers: %w", err)
	}
	if f.form.Value == "json" {
		return cli.WriteJSON(s.Out, t)
	}
	return t.WriteText(s.Out)
}

// readDeployment returns the settings of the server in the deployment file, by the keys of meta.json.
func (f *calibration) readDeployment() (map[string]any, error) {
	flags := map[string]string{}
	if f.engine.Value != "" {
		flags["engine"] = f.engine.Value
	}
	if f.atOnce > 0 {
		flags["max-in-flight"] = strconv.Itoa(f.atOnce)
	}
	if f.gpu != "" {
		if _, err := hardware.FindGPU(f.gpu, nil); err != nil {
			return nil, cli.WrongUsage(err)
		}
		flags["gpu"] = f.gpu
	}
	if f.model != "" {
		if _, err := hardware.FindModel(f.model); err != nil {
			return nil, cli.WrongUsage(err)
		}
		flags["model"] = f.model
	}
	if f.file == "" {
		return measured.KnownSettings(flags), nil
	}
	settings, err := options.ExpandDeployment([]plan.Setting{{Name: "deployment", Value: f.file}})
	if err != nil {
		return nil, err
	}
	for _, s := range settings {
		if flags[s.Name] == "" {
			flags[s.Name] = s.Value
		}
	}
	return measured.KnownSettings(flags), nil
}

// replayRun replays a measured run with its router and the timing profile p.
func replayRun(ctx context.Context, m *calibrate.Measured, p *timing.Profile, seed uint64) (result *harness.Result, err error) {
	err = withProfile(m, p, func(spec *replay.Spec, trace io.Reader) (err error) {
		spec.Seed = seed
		result, err = spec.Run(ctx, replay.Streams{Stdin: trace})
		return err
	})
	return result, err
}

// withProfile calls do with the trace of a run, and with its replay by the timing profile p.
func withProfile(m *calibrate.Measured, p *timing.Profile, do func(spec *replay.Spec, trace io.Reader) error) error {
	dir, err := os.MkdirTemp("", "replay-calibrate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "profile.json")
	if err := collector.WriteFile(path, p.Write); err != nil {
		return err
	}
	o, _, _, err := options.OptionsOf([]plan.Setting{{Name: "timing-profile", Value: path}})
	if err != nil {
		return err
	}
	spec, trace, _, err := o.MeasuredSpec(m, m.Prompts)
	if err != nil {
		return err
	}
	return do(&spec, trace)
}
