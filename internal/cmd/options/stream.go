package options

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/report/slo"
)

// streaming has the flags for a trace that is not kept in memory.
type streaming struct {
	*shared
	on        bool
	window    cli.Instant
	quantiles cli.Choice
}

func (s *streaming) bindFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&s.on, "stream", false, "read the trace during the replay, without keeping it in memory (docs/limits.md)")
	fs.Var(&s.window, "stream-window", "with --stream: maximum `time` by which rows of the trace are out of order, as 500ms or 10s")
	s.quantiles = cli.Choice{Names: []string{"sketch", "exact"}, Value: "sketch"}
	fs.Var(&s.quantiles, "quantiles", "with --stream: method for quantiles: sketch (error up to 0.2 %), or exact (a second pass over\ntemporary files; objectives on quantiles require it)")
}

// fillStream sets in spec that the trace is not kept in memory.
func (s *streaming) fillStream(spec *replay.Spec) error {
	if err := s.Check(
		cli.Needs(s.on, "with --stream", "stream-window", "quantiles"),
		cli.Needs(!s.on || spec.Mode == loadgen.Trace, "with replay trace", "stream"),
		cli.Needs(!s.on || !s.IsLive() && !s.IsCluster(), "with --mode offline", "stream"),
		cli.Needs(!s.on || spec.Trace != nil && spec.Trace.Path != "", "with a trace file", "stream"),
	); err != nil || !s.on {
		return err
	}
	spec.Stream = &replay.Stream{Window: s.window.At}
	return nil
}

// checkStreamed returns an error for outputs that are not supported with --stream.
func (o *Options) checkStreamed(spec *replay.Spec) error {
	if spec.Stream == nil {
		return nil
	}
	for _, name := range []string{"passes", "timeline", "kv-events-file", "save-caches", "regret", "otlp"} {
		if o.Changed(name) {
			return o.Only(name, "without --stream, which keeps no requests")
		}
	}
	if x := slo.StatisticOfClass(o.Outputs.Slo.All); x != nil {
		return o.Only("slo", fmt.Sprintf("without --stream for %s of class %s, which needs the rows of all requests", x.Statistic, x.Class))
	}
	if o.Outputs.Dir != "" && !o.Changed("quantiles") { // like other run directories
		o.streaming.quantiles.Value = "exact"
	}
	if slo.AreOfQuantiles(o.Outputs.Slo.All) {
		if !o.Changed("quantiles") {
			o.streaming.quantiles.Value = "exact"
		} else if o.streaming.quantiles.Value != "exact" {
			return o.Only("quantiles", "with exact quantiles: an objective is a quantile, and a sketch may misjudge it")
		}
	}
	return nil
}

// Folding returns how requests are added to the report without keeping them. Folding returns nil if all requests are
// kept.
func (o *Options) Folding() *collector.Folding {
	switch {
	case !o.streaming.on:
		return nil
	case o.streaming.quantiles.Value == "exact":
		return &collector.Folding{Quantiles: collector.Exact}
	}
	return &collector.Folding{Quantiles: collector.Sketched}
}
