package runs

import (
	"context"
	"fmt"

	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/cmd/internal/options"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/harness"
)

// Run runs spec and writes its report.
func Run(ctx context.Context, s cli.Streams, o *options.Options, spec replay.Spec, onProcesses Cluster) error {
	if o.IsCluster() && onProcesses == nil {
		return s.HandOver(ctx)
	}
	if s.Again != "" {
		o.RecordOnly(s.Again)
	}
	for _, warning := range spec.Warnings() {
		fmt.Fprintf(s.Err, "replay: warning: %s\n", warning)
	}
	p := cli.NewProgress(s.Err, "requests")
	total := 0
	streams := replay.Streams{Stdin: s.In, Opened: func(w *loadgen.Workload) { total = len(w.Turns) }}
	if p != nil {
		streams.Progress = p.Show
	}
	streams.Warn = func(text string) { fmt.Fprintf(s.Err, "replay: warning: %s\n", text) }
	rec, err := record(o, &spec, &streams)
	if err != nil {
		return err
	}
	trust, err := newTrust(&spec, s.Err)
	if err != nil {
		return err
	}
	var real liveRun
	result, err := draw(o, rec.observers(), func(watching observers) (*harness.Result, error) {
		return trust.run(streams, watching, func(streams replay.Streams) (*harness.Result, error) {
			if o.IsCluster() {
				return real.endedWith(onProcesses(ctx, s, o, &spec, streams))
			}
			if o.IsLive() {
				return real.run(ctx, o, &spec, streams)
			}
			return spec.Run(ctx, streams)
		})
	})
	p.Clear()
	trust.warn(s.Err)
	if err != nil && o.IsLive() {
		return err
	}
	if err != nil {
		return ExplainError(err)
	}
	listRejected(s.Err, result.Rejected)
	if err := rec.judge(result); err != nil {
		return err
	}
	if real.ended != nil {
		ctx = context.WithoutCancel(ctx) // what there is gets written
	}
	for _, step := range []func() error{
		func() error { return rec.write(ctx, s, result) },
		func() error { return writeReport(s, o, result, total) },
		func() error { return closeRun(s, o, rec) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return real.end(o, total)
}
