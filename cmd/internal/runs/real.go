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

// liveRun is a replay in real time and how it ended.
type liveRun struct {
	ended *harness.Result // nil before its end, and for one on the logical clock
}

// run replays spec in real time, shown to whoever watches.
func (l *liveRun) run(ctx context.Context, o *options.Options, spec *replay.Spec, streams replay.Streams) (*harness.Result, error) {
	r, err := spec.RunLive(ctx, streams, replay.Live{
		TwoPools: o.Live.Disagg,
		Pace:     online.Pace{NoBarrier: !o.Live.Barrier, Precise: o.Live.Precise.Value == "spin", Deadline: o.Live.Deadline},
	})
	return l.endedWith(r, err)
}

// endedWith keeps how a replay in real time ended.
func (l *liveRun) endedWith(r *harness.Result, err error) (*harness.Result, error) {
	if err != nil {
		return nil, err
	}
	l.ended = r
	return r, nil
}

// end is the error of a run that ended early, once its report is written.
func (l *liveRun) end(o *options.Options, total int) error {
	switch {
	case l.ended == nil:
		return nil
	case !l.ended.Partial && len(l.ended.Failed) > 0:
		return cli.Coded(cli.ExitIncomplete, "%s", online.Summary(l.ended.Failed))
	case !l.ended.Partial:
		return nil
	}
	late := errors.Is(l.ended.Cause, online.ErrDeadline)
	if _, wanted := o.RealEnd(); late && wanted {
		return nil
	}
	code := cli.ExitInterrupted
	var signal *cli.SignalError
	switch {
	case late:
		code = cli.ExitDiffer
	case errors.As(l.ended.Cause, &signal):
		code = signal.Exit()
	}
	return cli.Coded(code, "%v: %d requests were cancelled; the report is about %d of %d", l.ended.Cause, l.ended.Cancelled, l.ended.Report.Completed, total)
}
