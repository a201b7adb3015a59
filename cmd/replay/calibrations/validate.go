package calibrations

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/calibrate"
	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/cmd/runs"
	"github.com/replay-llm/replay/internal/terminal"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/html"
)

// validation holds the flags of replay validate that replay trace does not have.
type validation struct {
	prompts string
	block   int
	within  float64
	repeats []string
	html    string
	form    cli.Choice
	warmup  warmup
}

// NewValidateCommand returns the command validate, which compares a replay of a measured run with the measurement.
func NewValidateCommand(s cli.Streams) *cobra.Command {
	o, f := &options.Options{}, &validation{}
	cmd := &cobra.Command{
		Use:   "validate RUN",
		Short: "Compare a replay of a measured run with the measurement",
		Long: `Replay the requests of a measured run at their arrival times, and print the
measured and the simulated values, with the errors. Pass times are from a
deployment file, a profile or data sheets; nothing is fitted.

RUN is a directory as for replay calibrate, or a result of AIPerf, vllm bench
serve, sglang.bench_serving or GuideLLM. Settings that neither flags nor files
have are read from the meta.json of the run, if it exists.`,
		Example: `  replay validate runs/h100_llama-3.1-8b --deployment h100.yaml
  replay validate runs/h100_llama-3.1-8b --timing-profile h100.json
  replay validate runs/four-pods --deployment pod.yaml --workers 4 --router kv
  replay validate runs/a --timing-profile a.json --repeat runs/b --html a.html`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usagef("validate: %d arguments, expected the directory of one run", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), s, o, args[0]) },
	}
	o.BindMeasured(cmd, cli.NewGroup("Validation", f.bindFlags))
	return cmd
}

func (f *validation) bindFlags(fs *pflag.FlagSet) {
	f.form = cli.Choice{Names: []string{"text", "json"}, Value: "text"}
	fs.StringVar(&f.prompts, "prompts", "", "`file` of shared prompt prefixes: one line per request, in order, with input_length and hash_ids")
	fs.IntVar(&f.block, "prompt-block-size", 16, "number of `tokens` per hash id in --prompts")
	fs.Float64Var(&f.within, "tolerance", 0, "exit with code 3 if a mean is off by more than this `share`, as 0.1")
	fs.Float64Var(&f.within, "within", 0, "as --tolerance, a `share`")
	cli.Hide(fs, "within")
	fs.StringArrayVar(&f.repeats, "repeat", nil, "`DIR` of another run of the same requests on the same server, to measure the noise of the server; repeatable")
	fs.StringVar(&f.html, "html", "", "write measured and simulated times to `FILE`, as a web page")
	f.warmup.bind(fs)
	fs.Var(&f.form, "output", "`form` of the result: text or json")
}

// validated is the result of replay validate.
type validated struct {
	Run       string             `json:"run"`
	Requests  int                `json:"requests"`
	InFlight  int                `json:"in_flight,omitempty"` // of a closed loop
	FromRun   []string           `json:"settings_of_the_run"` // as FLAG VALUE
	Notes     []string           `json:"notes"`
	Measured  int                `json:"measured_kv_tokens,omitempty"` // of an engine, 0: not told
	Simulated int                `json:"simulated_kv_tokens"`
	Checks    []calibrate.Judged `json:"checks"`
	Assumes   map[string]string  `json:"assumptions"`
	Sides     []calibrate.Side   `json:"side_by_side"`
	Warnings  []string           `json:"warnings,omitempty"` // of servers with other shares of the work, or with KV events that the router cannot read
	assumed   []engines.Assumption
}

func (f *validation) run(ctx context.Context, s cli.Streams, o *options.Options, dir string) error {
	if f.block < 1 || !(f.within >= 0) || math.IsInf(f.within, 0) {
		return cli.Usagef("--prompt-block-size=%d, --tolerance=%v: must be at least 1 token, and a share of at least 0", f.block, f.within)
	}
	m, err := calibrate.ReadTimesOf(dir, o.MaxInFlight())
	if err != nil {
		return err
	}
	if n, of, text := m.Late(); 100*n > of {
		s.Warn(fmt.Sprintf("%s: %s: it could not keep up with the trace", m.Name, text))
	}
	if err := f.warmup.apply(m); err != nil {
		return err
	}
	prompts := m.Prompts
	if f.prompts != "" {
		if prompts, err = measured.ReadPrompts(f.prompts, f.block); err != nil {
			return err
		}
	}
	spec, trace, filled, err := o.MeasuredSpec(m, prompts)
	if err := cmp.Or(err, o.CheckAlike("replay validate")); err != nil {
		return err
	}
	for _, warning := range append(spec.Warnings(), o.Config.Overruled...) {
		s.Warn(warning)
	}
	result, err := replayMeasured(ctx, m, &spec, trace.Bytes())
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	v := newValidated(m, &spec, filled)
	if v.Checks, err = m.Judge(result); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if prompts == nil && spec.Entry().Engine.PrefixCaching {
		v.Notes = append(v.Notes, "prompts are unknown: no two prompts share a prefix")
	}
	if err := f.compare(v, m, result, cli.QuoteCommand(s.Args)); err != nil {
		return err
	}
	for _, warning := range v.Warnings {
		s.Warn(fmt.Sprintf("%s: %s", m.Name, warning))
	}
	if err := v.write(s.Out, f.form.Value); err != nil {
		return err
	}
	if worst := calibrate.FurthestMean(v.Checks); f.within > 0 && !(math.Abs(worst.Mean) <= f.within) {
		return cli.Coded(cli.ExitDiffer, "%s: mean %s is %+.1f %% off, must be within %g %%", m.Name, worst.Metric, 100*worst.Mean, 100*f.within)
	}
	return nil
}

// replayMeasured replays the trace of a measured run. If only the run shows whether KV events reached its router,
// replayMeasured changes spec to match the run.
func replayMeasured(ctx context.Context, m *calibrate.Measured, spec *replay.Spec, trace []byte) (*harness.Result, error) {
	replayOnce := func(s *replay.Spec) (*harness.Result, error) {
		return s.Run(ctx, replay.Streams{Stdin: bytes.NewReader(trace)})
	}
	if !m.RouterListens {
		return replayOnce(spec)
	}
	result, err := m.FindEvents(func(unheard bool) (*harness.Result, error) {
		one := *spec
		options.HideEvents(&one, unheard)
		return replayOnce(&one)
	})
	options.HideEvents(spec, m.Unheard)
	return result, err
}

// compare compares measured and simulated values, and writes the page if --html is set.
func (f *validation) compare(v *validated, m *calibrate.Measured, result *harness.Result, command string) error {
	var repeats []*calibrate.Measured
	for _, dir := range f.repeats {
		r, err := calibrate.ReadTimesOf(dir, m.InFlight)
		if err == nil {
			err = f.warmup.apply(r)
		}
		if err != nil {
			return err
		}
		repeats = append(repeats, r)
	}
	c, err := m.Compare(result, repeats)
	if err != nil {
		return err
	}
	v.Sides, v.Warnings = c.Sides, append(c.Warnings(), m.Unread...)
	if f.html == "" {
		return nil
	}
	if err := collector.WriteFile(f.html, func(w io.Writer) error { return html.WriteSheet(w, v.makePage(c, f.within, command)) }); err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	return nil
}

// newValidated returns the part of the result that is known before the comparison.
func newValidated(m *calibrate.Measured, spec *replay.Spec, filled []string) *validated {
	pool := spec.Pools[len(spec.Pools)-1].Engine
	v := &validated{
		Run: m.Name, Requests: len(m.Requests), InFlight: m.InFlight, FromRun: append([]string{}, filled...), Notes: append([]string{}, m.Settings.Notes...),
		Measured: m.Settings.Blocks * m.Settings.BlockTokens, Simulated: pool.Blocks * pool.BlockTokens,
	}
	v.assumed = spec.Assumptions()
	v.Assumes = runs.AssumptionsByKey(v.assumed)
	return v
}

// write writes v as JSON or as text.
func (v *validated) write(w io.Writer, form string) error {
	if form == "json" {
		return cli.WriteJSON(w, v)
	}
	t := &strings.Builder{}
	line := func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		t.WriteString(terminal.WrapText(text+"\n", 2))
	}
	how := "at their measured arrivals"
	if v.InFlight > 0 {
		how = fmt.Sprintf("in a closed loop of %d", v.InFlight)
	}
	line("%s: %d requests replayed %s", v.Run, v.Requests, how)
	if len(v.FromRun) > 0 {
		line("  from the run: %s", strings.Join(v.FromRun, ", "))
	}
	for _, n := range v.Notes {
		line("  assumed: %s", n)
	}
	line("")
	if v.Measured > 0 {
		line("KV tokens: %d measured, %d simulated, %+.1f %%", v.Measured, v.Simulated, 100*(float64(v.Simulated)/float64(v.Measured)-1))
	} else {
		line("KV tokens: %d simulated; the run does not have the server's", v.Simulated)
	}
	line("Errors in %%, simulated to measured")
	line("  %-6s %6s %10s %11s %7s %7s %7s %7s %8s", "Metric", "n", "measured", "simulated", "mean", "p50", "p90", "p99", "request")
	for _, c := range v.Checks {
		line("judged on %s", c.Set)
		for _, e := range c.Errors {
			each := fmt.Sprintf("%.2f", 100*e.Each)
			if e.Bucketed {
				each = "-"
			}
			line("  %-6s %6d %8.4f s %9.4f s %+7.2f %+7.2f %+7.2f %+7.2f %8s",
				e.Metric, e.Requests, e.Measured, e.Measured*(1+e.Mean), 100*e.Mean, 100*e.P50, 100*e.P90, 100*e.P99, each)
		}
	}
	if e := v.Checks[0].Errors; e[0].Bucketed {
		line("measured, simulated: means. p50 to p99: how far the simulated one is from the bucket that holds the measured one.")
	} else {
		line("measured, simulated: means. request: median size of the error of single requests.")
	}
	v.writeSides(line)
	for _, text := range runs.AssumptionLines(v.assumed) {
		t.WriteString(text + "\n")
	}
	_, err := io.WriteString(w, t.String())
	return err
}
