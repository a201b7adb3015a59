package runs

import (
	"context"
	"errors"

	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/cmd/internal/options"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/replay/online"
)

// driveLive returns what replays in real time.
func driveLive(o *options.Options) func(context.Context, *replay.Spec, replay.Streams) (*harness.Result, error) {
	return func(ctx context.Context, spec *replay.Spec, streams replay.Streams) (*harness.Result, error) {
		return spec.RunLive(ctx, streams, replay.Live{
			TwoPools: o.Live.Disagg,
			Pace:     online.Pace{NoBarrier: !o.Live.Barrier, Precise: o.Live.Precise.Value == "spin", Deadline: o.Live.Deadline},
		})
	}
}

// endLive returns the error of a replay in real time that ended early, once its
// report is written.
func endLive(o *options.Options, session *replay.Session) error {
	r := session.Result
	late := errors.Is(r.Cause, online.ErrDeadline)
	_, wanted := o.RealEnd()
	switch {
	case !r.Partial && len(r.Failed) > 0:
		return cli.Coded(cli.ExitIncomplete, "%s", online.Summary(r.Failed))
	case !r.Partial || late && wanted:
		return nil
	}
	code := cli.ExitInterrupted
	var signal *cli.SignalError
	switch {
	case late:
		code = cli.ExitDiffer
	case errors.As(r.Cause, &signal):
		code = signal.Exit()
	}
	return cli.Coded(code, "%v: %d requests were cancelled; the report is about %d of %d", r.Cause, r.Cancelled, r.Report.Completed, len(session.Workload.Turns))
}
