package runs

import (
	"context"
	"fmt"

	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/cmd/internal/options"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/relay"
)

// Run replays spec and writes what the flags ask for.
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
	rec := &recording{o: o, s: s}
	bar := cli.NewProgress(s.Err, "requests")
	session := &replay.Session{
		Spec: spec, Outputs: []replay.Output{clearing{bar: bar}, rec, &drawing{o: o}, &trust{warnings: s.Err}, &shown{o: o, s: s, rec: rec}},
		Streams: replay.Streams{Stdin: s.In, Warn: func(text string) { fmt.Fprintf(s.Err, "replay: warning: %s\n", text) }},
		Relay: func(all harness.Observer) (harness.Observer, func()) {
			cli.DelayCollectionMore()
			later := relay.New(all)
			return later, later.Close
		},
	}
	if bar != nil {
		session.Streams.Progress = bar.Show
	}
	switch {
	case o.IsCluster():
		session.Drive = func(ctx context.Context, spec *replay.Spec, streams replay.Streams) (*harness.Result, error) {
			return onProcesses(ctx, s, o, spec, streams)
		}
	case o.IsLive():
		session.Drive = driveLive(o)
	}
	err := session.Run(ctx)
	switch {
	case err != nil && o.IsLive():
		return err
	case err != nil:
		return ExplainError(err)
	}
	if err := rec.endJudged(); err != nil || session.Drive == nil {
		return err
	}
	return endLive(o, session)
}

// clearing takes the line of progress off the screen when the replay is over.
type clearing struct {
	replay.NoOutput
	bar *cli.Progress
}

// Around replays.
func (c clearing) Around(run func() error) error {
	defer c.bar.Clear()
	return run()
}
