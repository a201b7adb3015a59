// Package ceilings holds the command bounds, which compares router policies with a ceiling for all policies.
//
// Read bounds.go, then staleness.go.
package ceilings

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/cmd/runs"
	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/internal/table"
	"github.com/replay-llm/replay/internal/terminal"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/sim"
)

// NewBoundsCommand returns the command that compares policies with a ceiling.
func NewBoundsCommand(s cli.Streams) *cobra.Command {
	o := &options.Options{}
	ages := ""
	cmd := &cobra.Command{
		Use:   "bounds [FILE]",
		Short: "Compare router policies with the best possible result",
		Long: `Replay a workload with round robin, with the KV router and with the router of
--router. Then remove one limit at a time: a cache that never evicts, transfers
that take no time, or one worker per request. Also replay it with worker signals
of the ages of --signal-ages.
The ceiling removes all limits at once: each request runs alone on an engine
that has cached every earlier prompt. No policy is faster.

With --max-in-flight the workload is replayed in closed loop.`,
		Example: `  replay bounds requests.jsonl --workers 8
  replay bounds requests.jsonl --workers 8 --router kv --prefill-load-scale 2`,
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := boundsSpec(o, args)
			if err != nil {
				return err
			}
			times, err := readAges(ages)
			if err != nil {
				return err
			}
			return runBounds(cmd.Context(), s, spec, times, o)
		},
	}
	o.Bind(cmd)
	cmd.Flags().StringVar(&ages, agesFlag, "100ms,1s,5s", "ages of the worker signals that routers read, comma-separated `times`, or none")
	for _, name := range refusedInBounds(o) {
		if o.Set.Lookup(name) != nil {
			cli.Hide(o.Set, name)
		}
	}
	return cmd
}

// refusedInBounds returns the given flags of a single replay that bounds does not support.
func refusedInBounds(o *options.Options) []string {
	return append(o.ModeFlags(), "mode", "out", "overwrite", "force", "passes", "requests", "metrics", "otlp", "requests-format", "kv-events-file", "warm-caches", "save-caches", "digest", "slo", "slo-attainment", "slo-exit",
		"timeline", "timeline-from", "timeline-to", "timeline-request", "report-json", "report-format", "scale", "autoscale", "faults", "until", "window", "recycle", "stream", "stream-window", "threads", "admission", "signal-delay", "signal-interval", "retry", "retry-backoff", "client-timeout",
		"worker-speed", "prefill-worker-speed", "decode-worker-speed")
}

// boundsSpec returns the replay for which bounds are computed.
func boundsSpec(o *options.Options, args []string) (replay.Spec, error) {
	file, err := options.TraceFile(args)
	if err != nil {
		return replay.Spec{}, err
	}
	if name := o.FirstChanged("signal-delay", "signal-interval"); name != "" {
		return replay.Spec{}, o.Only(name, "with one replay or a sweep: bounds compares ages, those of --"+agesFlag)
	}
	if o.Changed("admission") {
		return replay.Spec{}, o.Only("admission", "with replay trace, replay concurrency and replay sweep: where requests are shed, latencies are those of the admitted requests, which no ceiling bounds")
	}
	for _, name := range refusedInBounds(o) {
		if o.Set.Lookup(name) != nil && o.Changed(name) {
			return replay.Spec{}, o.Only(name, "with replay trace and replay concurrency")
		}
	}
	if file == "-" {
		return replay.Spec{}, cli.Usagef("-: standard input cannot be replayed more than once, must be a file")
	}
	mode := loadgen.Trace
	if o.Changed("max-in-flight") {
		mode = loadgen.Concurrency
	}
	spec, err := o.Spec(file, mode)
	return spec, cmp.Or(err, o.CheckAlike("replay bounds"))
}

// bounded is a replay that is compared with the ceiling.
type bounded struct {
	name  string
	spec  replay.Spec
	stale []router.Signal // signals that are old,
	age   sim.Time        // age of the signals; 0: the default age
	alone bool            // each request runs alone on an idle engine
}

// run replays v.
func (v *bounded) run(ctx context.Context, s cli.Streams) (*harness.Result, error) {
	if !v.alone {
		return v.spec.Run(ctx, replay.Streams{Stdin: s.In})
	}
	w, err := v.spec.Open(ctx, replay.Streams{Stdin: s.In})
	if err != nil {
		return nil, err
	}
	result, _, err := RunAlone(ctx, v.spec, w)
	return result, err
}

// RunAlone replays each request of a workload alone on an idle engine, the ceiling of spec: no number of workers is
// faster. RunAlone also returns the workload that it replayed.
func RunAlone(ctx context.Context, spec replay.Spec, w *loadgen.Workload) (*harness.Result, *loadgen.Workload, error) {
	spec = ceilingOf(spec, demandOf(w, &spec))
	first := spec
	first.Mode, first.MaxInFlight = loadgen.Concurrency, 1
	result, err := first.RunOn(ctx, w, replay.Streams{})
	if err != nil {
		return nil, nil, err
	}
	spec.Mode, spec.MaxInFlight, spec.Speedup = loadgen.Trace, 0, 1
	spaced := spaceTurns(w, sim.Time(result.Report.E2E.Max))
	result, err = spec.RunOn(ctx, spaced, replay.Streams{})
	return result, spaced, err
}

// spaceTurns returns a workload with the turns of w one after the other. A turn takes at most longest, and the gaps
// are twice as long. Without a gap the next request could wait: an answer that ends within accepted drafts leaves a
// planned pass behind.
func spaceTurns(w *loadgen.Workload, longest sim.Time) *loadgen.Workload {
	gap := 2*longest + 1
	o := *w
	o.Graph, o.Untimed = nil, false
	o.Sessions, o.Turns = slices.Clone(w.Sessions), slices.Clone(w.Turns)
	order := make([]int, len(o.Sessions))
	for i := range order {
		order[i] = i
	}
	stable.Sort(order, func(a, b int) int { return cmp.Compare(w.Sessions[a].Arrival, w.Sessions[b].Arrival) })
	at := sim.Time(0)
	for _, i := range order {
		o.Sessions[i].Arrival, o.Sessions[i].HasArrival = at, true
		at += sim.Time(o.Sessions[i].Turns) * (gap + longest)
	}
	for i := range o.Turns {
		if o.Turns[i].Delay = gap; o.Turns[i].Index == 0 {
			o.Turns[i].Delay = 0
		}
	}
	return &o
}

// runBounds replays all variants and prints the table or JSON.
func runBounds(ctx context.Context, s cli.Streams, spec replay.Spec, ages []sim.Time, o *options.Options) error {
	demand := 0
	bar := cli.NewProgress(s.Err, "replays")
	defer bar.Clear()
	first, err := spec.Run(ctx, replay.Streams{Stdin: s.In, Opened: func(w *loadgen.Workload) { demand = demandOf(w, &spec) }})
	if err != nil {
		return runs.ExplainError(err)
	}
	variants := variantsOf(spec, demand, first.Report.Requests, ages)
	reports := make([]*collector.Report, len(variants))
	for i, v := range variants {
		bar.Show(1+i, 1+len(variants))
		result, err := v.run(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", v.name, runs.ExplainError(err))
		}
		if err := RefuseShed(result, &v.spec); err != nil {
			return err
		}
		reports[i] = result.Report
	}
	bar.Show(1+len(variants), 1+len(variants))
	bar.Clear()
	if o.Output.Form.Value == "json" {
		return writeBoundsJSON(s.Out, variants, reports)
	}
	if err := writeBounds(s.Out, variants, reports, o.TableForm() == collector.Wide); err != nil || spec.Compat {
		return err
	}
	return runs.PrintAssumptions(s.Out, spec.Assumptions())
}

// demandOf returns the number of KV blocks of the whole workload.
func demandOf(w *loadgen.Workload, spec *replay.Spec) int {
	block, all := spec.Entry().Engine.BlockTokens, 1
	for i := range w.Turns {
		all += (int(w.Turns[i].Input)+int(w.Turns[i].Output))/block + 2
	}
	return all
}

// variantsOf returns the policies, the policies without one limit each, and last the ceiling.
func variantsOf(spec replay.Spec, demand, requests int, ages []sim.Time) []bounded {
	var all []bounded
	own := spec.Choice()
	choices := []policy.Choice{policy.RoundRobin, policy.KV}
	if i := slices.IndexFunc(choices, func(c policy.Choice) bool { return c.Info().Name == own.Info().Name }); i < 0 {
		choices = append(choices, own)
	} else {
		choices[i] = own // with its settings
	}
	for _, c := range choices {
		if c.Info().MinWorkers > spec.Entry().Count && !spec.Disaggregated() {
			continue
		}
		routed := routeBy(spec, c)
		label := c.Info().Report
		if text, ok := c.(*policy.Text); ok {
			label = text.Name
		}
		all = append(all, bounded{name: label, spec: routed}, bounded{name: "  endless cache", spec: withEndlessCache(routed, demand)})
		if spec.Disaggregated() {
			all = append(all, bounded{name: "  instant transfer", spec: withInstantTransfer(routed)})
		}
		all = append(all, withStaleSignals(routed, ages)...)
	}
	return append(all, bounded{name: "a worker each", spec: withWorkerEach(spec, requests)}, bounded{name: "ceiling", spec: ceilingOf(spec, demand), alone: true})
}

// routeBy returns spec with another router policy.
func routeBy(spec replay.Spec, by policy.Choice) replay.Spec {
	if spec.Router = by; !by.Info().Caches {
		spec.PrefillLoad = engineargs.AIC{}
	}
	return spec
}

// changeEngines returns spec with changed engines.
func changeEngines(spec replay.Spec, to func(*engineargs.Args)) replay.Spec {
	spec.Topology = spec.WithEngines(to)
	return spec
}

// withEndlessCache returns spec with worker caches that contain the whole workload.
func withEndlessCache(spec replay.Spec, demand int) replay.Spec {
	return changeEngines(spec, func(a *engineargs.Args) { a.Blocks = max(a.Blocks, demand) })
}

// withInstantTransfer returns spec with KV transfers that take no time.
func withInstantTransfer(spec replay.Spec) replay.Spec {
	pulls := spec.PD != nil && spec.PD.Pull
	spec = changeEngines(spec, func(a *engineargs.Args) {
		if a.TransferGBPerSecond, a.TransferLatencyMs = 0, 0; !pulls { // no KV cache is sent
			a.KVBytesPerToken = 0
		}
	})
	if spec.PD != nil {
		pd := *spec.PD
		pd.Sharing, pd.NIC, pd.Core, pd.Missing = "", 0, 0, false
		spec.PD = &pd
	}
	return spec
}

// withWorkerEach returns spec with a separate worker for each request.
func withWorkerEach(spec replay.Spec, requests int) replay.Spec {
	spec = routeBy(spec, policy.RoundRobin)
	spec.Topology = spec.Resize(requests, requests)
	return withInstantTransfer(spec)
}

// ceilingOf returns spec with one engine that evicts no block.
func ceilingOf(spec replay.Spec, demand int) replay.Spec {
	spec = routeBy(spec, policy.RoundRobin)
	spec.Topology = spec.Resize(1, 1)
	return withInstantTransfer(withEndlessCache(spec, demand))
}

// boundColumn is a value in the table of bounds.
type boundColumn struct {
	name, key string // in the table, and in JSON
	rank      int    // columns with a high rank are dropped first from a narrow table
	of        func(*collector.Report) float64
}

func listBoundColumns() []boundColumn {
	return []boundColumn{
		{"mean TTFT", "mean_ttft_ms", 0, func(r *collector.Report) float64 { return r.TTFT.Mean }},
		{"p99 TTFT", "p99_ttft_ms", 0, func(r *collector.Report) float64 { return r.TTFT.P99 }},
		{"mean ITL", "mean_itl_ms", 0, func(r *collector.Report) float64 { return r.ITL.Mean }},
		{"mean E2E", "mean_e2e_latency_ms", 2, func(r *collector.Report) float64 { return r.E2E.Mean }},
		{"p99 E2E", "p99_e2e_latency_ms", 1, func(r *collector.Report) float64 { return r.E2E.P99 }},
	}
}

// writeBoundsJSON writes one object per variant: the limit that is removed or the age of signals, each value, and its
// ratio to the value of the ceiling (null if that is 0).
func writeBoundsJSON(w io.Writer, variants []bounded, reports []*collector.Report) error {
	all, policy := []map[string]any{}, ""
	last := reports[len(reports)-1]
	for i, r := range reports {
		v := &variants[i]
		free, isFree := strings.CutPrefix(v.name, "  ")
		if !isFree {
			policy = v.name
		}
		if !isFree || v.stale != nil {
			free = ""
		}
		row := map[string]any{"variant": policy, "free": free, "old_signals": append([]router.Signal{}, v.stale...), "signal_age_ms": float64(v.age), "prefix_cache_reused_ratio": r.PrefixCacheReusedRatio}
		times := map[string]any{}
		for _, c := range listBoundColumns() {
			row[c.key], times[c.key] = c.of(r), nil
			if base := c.of(last); base > 0 {
				times[c.key] = c.of(r) / base
			}
		}
		row["times_ceiling"] = times
		all = append(all, row)
	}
	return cli.WriteJSON(w, map[string]any{"bounds": all})
}

// writeBounds writes one row per variant: each value, and its ratio to the value of the ceiling.
func writeBounds(w io.Writer, variants []bounded, reports []*collector.Report, wide bool) error {
	all, rows := table.NewLeft("ms"), make([][]string, len(reports))
	last := reports[len(reports)-1]
	for _, c := range listBoundColumns() {
		statistic, metric, _ := strings.Cut(c.name, " ")
		all.Columns = append(all.Columns, table.Column{Above: statistic, Name: metric, Rank: c.rank})
		longest := 0
		for _, r := range reports {
			longest = max(longest, len(formatTimes(c.of(r), c.of(last))))
		}
		for i, r := range reports {
			v, digits := c.of(r), 2
			if !wide {
				digits = terminal.Digits(v)
			}
			rows[i] = append(rows[i], fmt.Sprintf("%.*f %*s", digits, v, longest, formatTimes(v, c.of(last))))
		}
	}
	all.AddColumns("hit\nrate")
	for i, r := range reports {
		all.Add(slices.Concat([]string{variants[i].name}, rows[i], []string{fmt.Sprintf("%.1f %%", 100*r.PrefixCacheReusedRatio)})...)
	}
	var left []string
	if !wide {
		left = all.Fit(terminal.Width)
	}
	note := "x: times the ceiling's."
	if len(left) > 0 {
		note += " Left out for the width: " + strings.Join(left, ", ") + "; --wide has all."
	}
	_, err := fmt.Fprintf(w, "%s%s\n", all.Text(), terminal.WrapLine(note, 0))
	return err
}

// formatTimes formats the ratio of v to base.
func formatTimes(v, base float64) string {
	if base <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.*fx", terminal.Digits(v/base), v/base)
}

// RefuseShed rejects a router program that rejects requests: bounds require that all requests are answered.
func RefuseShed(result *harness.Result, spec *replay.Spec) error {
	program, ok := spec.Router.(*policy.Process)
	if !ok {
		return nil
	}
	by, _ := result.Collector.Outcomes()
	if n := by[collector.Shed]; n > 0 {
		return fmt.Errorf("the program %s rejected %d requests, must be an answer to every request", program.Command, n)
	}
	return nil
}
