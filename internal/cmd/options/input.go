package options

import (
	"cmp"
	"context"
	"errors"
	"math"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/registry"
	"github.com/replay-llm/replay/loadgen/generate"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/sim"
)

// input has the flags for the workload and its admission.
type input struct {
	*shared
	speedup     float64
	maxInFlight int
	classes     string // path of a file with classes

	format      cli.Choice
	blockTokens int
	traceRatio  float64
	traceGroups int

	inputTokens, outputTokens, requests int
	intervalMS                          float64
	turns                               int
	delayMS                             float64
	ratio                               float64
	groups                              int

	open          LeftOpen
	generating    Generating
	openFlags     []string // names of the flags of open
	generateFlags []string
}

func (in *input) bindFlags(fs *pflag.FlagSet) {
	fs.Float64Var(&in.speedup, "speedup", 1, "divide arrival times and delays by `R`")
	fs.IntVar(&in.maxInFlight, "max-in-flight", 0, "closed loop: keep `K` requests in flight")

	fs.StringVar(&in.classes, "classes", "", "`FILE` with the class, priority and deadline of requests (docs/classes.md)")
	in.format = cli.Choice{Names: registry.Names(), Value: formats.Mooncake}
	fs.Var(&in.format, "trace-format", "`format` of the trace, a name in docs/traces.md")
	fs.Lookup("trace-format").DefValue = "detected from the file"
	fs.IntVar(&in.blockTokens, "trace-block-size", 512, "number of `tokens` per hash id of the trace, if neither the file nor its format sets it")
	fs.Float64Var(&in.traceRatio, "trace-shared-prefix-ratio", 0, "agentic traces: `share` of the first prompt that the agents of a group have in common, 0 to 1")
	fs.IntVar(&in.traceGroups, "trace-num-prefix-groups", 0, "agentic traces: number of `groups` of agents, each with a common start of the first prompt")

	fs.IntVar(&in.inputTokens, "input-tokens", 0, "synthetic workload: prompt `tokens` per request")
	fs.IntVar(&in.outputTokens, "output-tokens", 0, "synthetic workload: answer `tokens` per request")
	fs.IntVar(&in.requests, "request-count", 0, "synthetic workload: `number` of sessions")
	fs.Float64Var(&in.intervalMS, "arrival-interval-ms", 1, "synthetic workload: `ms` between the arrivals of two sessions")
	fs.IntVar(&in.turns, "turns-per-session", 1, "synthetic workload: `number` of requests per session")
	fs.Float64Var(&in.delayMS, "inter-turn-delay-ms", 0, "synthetic workload: `ms` from an answer to the next request of the session")
	fs.Float64Var(&in.ratio, "shared-prefix-ratio", 0, "synthetic workload: `share` of the prompt blocks that the sessions of a group have in common, 0 to 1")
	fs.IntVar(&in.groups, "num-prefix-groups", 0, "synthetic workload: number of `groups` of sessions with a common prompt prefix")

	in.generateFlags = cli.BindNamed(fs, func(fs *pflag.FlagSet) { in.generating.Bind(fs, "generate-") })
	cli.Hide(fs, in.generateFlags...) // the help refers to replay generate for these flags
}

// bindOpen adds the flags for properties that trace files do not contain.
func (in *input) bindOpen(fs *pflag.FlagSet) {
	in.openFlags = cli.BindNamed(fs, func(fs *pflag.FlagSet) { in.open.Bind(fs, "trace-") })
}

func countFlags() []string { return []string{"input-tokens", "output-tokens", "request-count"} }

func syntheticFlags() []string {
	return append(countFlags(), "arrival-interval-ms", "turns-per-session", "inter-turn-delay-ms",
		"shared-prefix-ratio", "num-prefix-groups")
}

// isSynthetic reports whether flags describe a synthetic workload.
func (in *input) isSynthetic() bool {
	if !in.Reference {
		return in.FirstChanged(syntheticFlags()...) != ""
	}
	return in.FirstChanged(countFlags()...) != "" || in.turns != 1 || in.ratio != 0 || in.groups != 0 || in.delayMS != 0
}

// WarnInterval returns a warning for a synthetic workload in open loop with the default interval of arrivals, which
// is shorter than that of most services. For other workloads, and with --compat, WarnInterval returns "".
func (o *Options) WarnInterval() string {
	if !o.input.isSynthetic() || o.input.requests == 1 || o.compat != "" || o.Changed("arrival-interval-ms") || o.Changed("max-in-flight") || o.input.speedup != 1 {
		return ""
	}
	return "a request arrives every 1 ms, 1000 a second: --arrival-interval-ms sets the interval"
}

// fillInput sets the workload in spec. file is "" if the command line names no trace.
func (in *input) fillInput(spec *replay.Spec, file string) error {
	spec.Speedup, spec.MaxInFlight = in.speedup, in.maxInFlight
	if err := in.checkSource(file); err != nil {
		return err
	}
	if in.FirstChanged(in.generateFlags...) != "" {
		return in.fillGenerated(spec)
	}
	if file == "" {
		spec.Synthetic = loadgen.Synthetic{
			Requests: in.requests, Input: in.inputTokens, Output: in.outputTokens,
			Interval: sim.Time(in.intervalMS), Turns: in.turns, Delay: sim.Time(in.delayMS),
			SharedRatio: in.ratio, Groups: in.groups,
		}
		return nil
	}
	format := in.format.Value
	if in.Reference && format != formats.Mooncake && format != formats.Agentic {
		return in.Refuse("trace-format", "mooncake or applied_compute_agentic")
	}
	if format == formats.Agentic && spec.Mode == loadgen.Trace {
		return cli.Usagef("--trace-format=%s requires replay concurrency: the format has no timestamps", format)
	}
	spec.Trace = &replay.Trace{
		Path: file, Format: format, Detect: !in.Reference && !in.Changed("trace-format"), BlockTokens: in.blockTokens,
		SharedRatio: in.traceRatio, Groups: in.traceGroups,
	}
	var err error
	if spec.Trace.LeftOpen, err = in.open.Values(); err != nil {
		return err
	}
	own := format == formats.Mooncake || format == formats.Agentic
	if (spec.Trace.Detect || !own) && !in.Changed("trace-block-size") {
		spec.Trace.BlockTokens = 0 // the file may contain the block size
	}
	return nil
}

// fillGenerated sets a generated workload in spec, in the same format as replay generate.
func (in *input) fillGenerated(spec *replay.Spec) error {
	config, err := in.generating.Build(in.blockTokens, spec.Seed)
	if err != nil {
		return err
	}
	if _, err := generate.New(config); err != nil {
		return cli.WrongUsage(err)
	}
	spec.Trace = &replay.Trace{Made: config}
	return nil
}

// checkSource returns an error for a command line with no workload, an incomplete workload or two workloads.
func (in *input) checkSource(file string) error {
	synthetic := in.FirstChanged(syntheticFlags()...)
	made := in.FirstChanged(in.generateFlags...)
	if name := cmp.Or(in.FirstChanged(in.openFlags...), made); name != "" && in.Reference {
		return cli.Usagef("--%s: no such flag", name)
	}
	switch {
	case made != "" && file == "" && synthetic == "":
		return nil
	case made != "" && file == "":
		return in.Only(made, "without --"+synthetic)
	case made != "":
		return in.Only(made, "without a trace file")
	case file == "" && !in.isSynthetic():
		return cli.Usagef("no workload: must be a trace file, --generate-rate with its flags (docs/traces.md), or --input-tokens, --output-tokens and --request-count")
	case file != "" && in.isSynthetic():
		return in.Only(synthetic, "without a trace file")
	case file != "":
		return nil
	}
	for _, name := range countFlags() {
		if !in.Changed(name) {
			return cli.Usagef("--%s is required with a synthetic workload", name)
		}
	}
	return nil
}

// checkInput returns an error for flags with invalid values or without effect on the workload. Command lines of the
// reference are not checked.
func (in *input) checkInput(file string, mode loadgen.Mode) error {
	return cmp.Or(
		in.CheckLeast(1, "max-in-flight", "trace-block-size", "input-tokens", "output-tokens", "request-count", "turns-per-session"),
		in.CheckLeast(0, "trace-num-prefix-groups", "arrival-interval-ms", "inter-turn-delay-ms", "num-prefix-groups"),
		in.Check(
			cli.Wants(in.ratio >= 0 && in.ratio <= 1, "shared-prefix-ratio", "0 to 1"),
			cli.Wants(in.traceRatio >= 0 && in.traceRatio <= 1, "trace-shared-prefix-ratio", "0 to 1"),
			cli.Wants(in.speedup > 0 && !math.IsInf(in.speedup, 0), "speedup", "a finite number above 0"),
		),
		in.checkEffect(file, mode))
}

// checkEffect returns an error for flags without effect.
func (in *input) checkEffect(file string, mode loadgen.Mode) error {
	err := in.Check(
		cli.Needs(mode == loadgen.Concurrency, "with replay concurrency", "max-in-flight"),
		cli.Needs(mode == loadgen.Trace, "with replay trace", "speedup", "arrival-interval-ms"),
		cli.Needs(file != "" || in.FirstChanged(in.generateFlags...) != "", "with a trace file", "trace-block-size"),
		cli.Needs(file != "", "with a trace file", in.openFlags...),
		cli.Needs(file != "", "with a trace file", "trace-format", "trace-shared-prefix-ratio", "trace-num-prefix-groups"),
		cli.Needs(in.format.Value == formats.Agentic || !in.Changed("trace-format"), "with --trace-format applied_compute_agentic", "trace-shared-prefix-ratio", "trace-num-prefix-groups"),
		cli.Needs(in.traceGroups > 0, "with --trace-num-prefix-groups", "trace-shared-prefix-ratio"),
		cli.Needs(in.groups > 0, "with --num-prefix-groups", "shared-prefix-ratio"),
		cli.Needs(in.turns > 1, "with --turns-per-session of at least 2", "inter-turn-delay-ms"),
	)
	if err == nil && mode == loadgen.Concurrency && !in.Changed("max-in-flight") {
		return cli.Usagef("--max-in-flight is required: the requests to keep in flight")
	}
	return err
}

// checkUnsigned returns an error for negative counts on a command line of the reference. The error is not a usage
// error.
func (in *input) checkUnsigned(*replay.Spec) error {
	if !in.Reference {
		return nil
	}
	for _, name := range []string{
		"trace-block-size", "trace-num-prefix-groups", "input-tokens", "output-tokens", "request-count", "turns-per-session",
		"num-prefix-groups", "max-in-flight", "workers", "prefill-workers", "decode-workers",
	} {
		if n, err := strconv.Atoi(in.Set.Lookup(name).Value.String()); err != nil || n < 0 {
			return errors.New(in.Refuse(name, "at least 0").Error())
		}
	}
	return nil
}

// lengths has statistics of the request lengths of a workload, in tokens. 0 means unknown.
type lengths struct {
	live    int // mean KV cache length of decoding requests over time, if all tokens take equally long
	longest int
}

// workloadLengths returns the lengths of the workload, or zero values if they are not known before the replay.
// workloadLengths ignores errors of a trace, because the replay reports them.
func (o *Options) workloadLengths() lengths {
	var sum lengthSum
	if o.measured != nil {
		for i := range o.measured.Requests {
			sum.addRequest(o.measured.Requests[i].Input, o.measured.Requests[i].Output)
		}
		return sum.lengths()
	}
	s := o.workload
	if s == nil || s.Trace != nil && s.Trace.Path == "-" {
		return lengths{}
	}
	if s.Trace == nil {
		return lengths{s.Synthetic.Input + s.Synthetic.Output/2, s.Synthetic.Input + s.Synthetic.Output}
	}
	w, err := s.Open(context.Background(), replay.Streams{})
	if err != nil {
		return lengths{}
	}
	for i := range w.Turns {
		sum.addRequest(int(w.Turns[i].Input), int(w.Turns[i].Output))
	}
	return sum.lengths()
}

// lengthSum adds up the lengths of requests.
type lengthSum struct {
	tokens, steps float64 // KV cache tokens summed over all decoding steps, and the number of steps
	longest       int
}

func (s *lengthSum) addRequest(input, output int) {
	s.longest = max(s.longest, input+output)
	s.steps += float64(output)
	s.tokens += float64(output) * (float64(input) + float64(output)/2)
}

func (s *lengthSum) lengths() lengths { return lengths{int(s.tokens / max(s.steps, 1)), s.longest} }
