package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/replay/online"
	"github.com/replay-llm/replay/report/kvevents"
	"github.com/replay-llm/replay/report/relay"
	"github.com/replay-llm/replay/report/timeline"
	"github.com/replay-llm/replay/router/policy"
)

// Cluster replays spec on workers that are processes. Cluster is nil if the program does not support worker
// processes.
type Cluster func(ctx context.Context, s cli.Streams, o *options.Options, spec *replay.Spec, watched replay.Streams) (*harness.Result, error)

// run is a replay with its outputs.
type run struct {
	s     cli.Streams
	o     *options.Options
	spec  replay.Spec
	drive func(context.Context, replay.Streams) (*harness.Result, error)
	live  bool // in real time; outputs are written completely even if the context ends

	stdin io.Reader // standard input of the replay
	cut   timeline.Options
	trust trust
	recording

	workload *loadgen.Workload // nil until it is opened
	result   *harness.Result   // nil until the replay ends
}

// Run replays spec and writes the outputs that the flags request.
func Run(ctx context.Context, s cli.Streams, o *options.Options, spec replay.Spec, onProcesses Cluster) error {
	if o.IsCluster() && onProcesses == nil {
		return s.HandOver(ctx)
	}
	if s.Again != "" {
		o.RecordOnly(s.Again)
	}
	for _, warning := range append(spec.Warnings(), o.Config.Overruled...) {
		s.Warn(warning)
	}
	r := &run{s: s, o: o, spec: spec, stdin: s.In, live: o.IsCluster() || o.IsLive()}
	switch {
	case o.IsCluster():
		r.drive = func(ctx context.Context, streams replay.Streams) (*harness.Result, error) {
			return onProcesses(ctx, s, o, &r.spec, streams)
		}
	case o.IsLive():
		r.drive = r.driveLive
	default:
		r.drive = r.driveOffline
	}
	err := r.carryOut(ctx)
	switch {
	case err != nil && o.IsLive():
		return err
	case err != nil:
		return ExplainError(err)
	}
	if err := r.endJudged(); err != nil || !r.live {
		return err
	}
	return r.endLive()
}

// carryOut replays the workload and writes the outputs. carryOut rejects outputs that cannot be written before it
// reads the workload.
func (r *run) carryOut(ctx context.Context) (err error) {
	if err := r.openRecording(); err != nil {
		return err
	}
	if r.cut, err = r.o.Cut(); err != nil {
		return err
	}
	r.cut.Kinds = r.spec.KindNames()
	if err := r.trust.readProfiles(&r.spec); err != nil {
		return err
	}
	if err := r.findPerfect(ctx); err != nil {
		return err
	}
	err = r.replay(ctx)
	r.trust.warnOutside(r.s)
	if err != nil {
		return err
	}
	if err := r.study(ctx); err != nil {
		return err
	}
	listRejected(r.s.Err, r.result)
	if r.live {
		ctx = context.WithoutCancel(ctx)
	}
	if err := r.writeRecording(ctx); err != nil {
		return err
	}
	return r.writeReport()
}

// study computes the results that follow from a replay and adds them to the report.
func (r *run) study(ctx context.Context) error {
	if err := r.studyFaults(ctx); err != nil {
		return err
	}
	if err := r.studyScaling(ctx); err != nil {
		return err
	}
	if err := r.studyRegret(ctx); err != nil {
		return err
	}
	r.addScaling()
	if err := r.addCaches(); err != nil {
		return err
	}
	return r.addRows()
}

// logging is an observer that writes a file during the replay.
type logging interface {
	harness.Observer
	Close() error
}

// replay replays the workload. If requested, it writes the timeline and the KV events during the replay. The files
// get their names when the replay ends.
func (r *run) replay(ctx context.Context) error {
	timed := func(out io.Writer) logging { return timeline.New(out, r.cut) }
	events := func(out io.Writer) logging { return kvevents.New(out) }
	return r.writePassing(ctx, func() error { return r.replayAll(ctx, timed, events) })
}

// replayAll replays with the requested logs.
func (r *run) replayAll(ctx context.Context, timed, events func(io.Writer) logging) error {
	return r.replayLogged("timeline", r.o.Output.Drawing.Path, timed, func(more ...harness.Observer) error {
		return r.replayLogged("kv-events-file", r.o.Outputs.KVEvents, events, func(last ...harness.Observer) error {
			return r.replayWatched(ctx, append(more, last...)...)
		})
	})
}

// replayLogged replays and writes a log to the file that a flag names. Without the flag replayLogged only replays.
func (r *run) replayLogged(flag, path string, newLog func(io.Writer) logging, replay func(...harness.Observer) error) error {
	if !r.o.Changed(flag) {
		return replay()
	}
	var ended error
	err := collector.WriteFile(path, func(out io.Writer) error {
		log := newLog(out)
		if ended = replay(log); ended != nil {
			return ended
		}
		if drawn, ok := log.(*timeline.Writer); ok {
			drawn.AddResult(r.result)
		}
		return log.Close()
	})
	if err != nil && ended == nil {
		err = fmt.Errorf("--%s: %w", flag, err)
	}
	return err
}

// replayWatched replays with the observers of the run and additional observers.
func (r *run) replayWatched(ctx context.Context, more ...harness.Observer) (err error) {
	all := append(observers(more), r.watching()...)
	if r.trust.knows() {
		all = append(all, &r.trust)
	}
	streams := replay.Streams{
		Stdin: r.stdin, Warn: r.s.Warn,
		KVEvents: r.o.Changed("kv-events-file"), SaveCaches: r.savedCaches(), Fold: r.o.Folding(), Threads: cmp.Or(r.o.Threads, runtime.NumCPU()),
		Once: !r.live && r.spec.Faults == nil && !r.spec.Autoscales() && !r.o.Outputs.Regret.Wanted, // otherwise the workload is replayed again for comparison
	}
	streams.Opened = func(w *loadgen.Workload) {
		r.workload = w
		r.followClasses(&streams)
		all.growAll(len(w.Turns))
	}
	switch {
	case r.passing.rows != nil:
		later := r.watchFolded(&streams, all)
		defer func() {
			if later.Close(); err == nil {
				err = later.Err()
			}
		}()
	case len(all) == 1 && r.trust.knows(): // faster than a relay, which copies passes
		streams.Observer = &r.trust
	case len(all) > 0:
		cli.DelayCollectionMore()
		later := relay.New(all)
		defer later.Close()
		streams.Observer = later
	}
	defer func(end func(bool)) { end(err == nil) }(r.showProgress(&streams))
	if r.result, err = r.drive(ctx, streams); err == nil {
		if p, ok := r.spec.Router.(*policy.Process); ok {
			known := *p
			known.Facts = r.result.Facts
			r.spec.Router = &known
		}
	}
	return err
}

// driveOffline replays in simulated time. driveOffline uses the shared workload of ctx, if ctx has one.
func (r *run) driveOffline(ctx context.Context, streams replay.Streams) (*harness.Result, error) {
	w, err := OpenShared(ctx, &r.spec, streams)
	switch {
	case err != nil:
		return nil, err
	case w == nil:
		return r.spec.Run(ctx, streams)
	}
	streams.Once = false
	return r.spec.RunOn(ctx, w, streams)
}

// driveLive replays in real time.
func (r *run) driveLive(ctx context.Context, streams replay.Streams) (*harness.Result, error) {
	live := &r.o.Live
	return r.spec.RunLive(ctx, streams, replay.Live{
		TwoPools: live.Disagg,
		Pace:     online.Pace{NoBarrier: !live.Barrier, Precise: live.Precise.Value == "spin", Deadline: live.Deadline},
	})
}

// endLive returns the error of a replay in real time that ended early or incompletely.
func (r *run) endLive() error {
	late := errors.Is(r.result.Cause, online.ErrDeadline)
	_, wanted := r.o.RealEnd()
	switch {
	case !r.result.Partial && len(r.result.Failed) > 0:
		return cli.Coded(cli.ExitIncomplete, "%s", online.Summary(r.result.Failed))
	case !r.result.Partial || late && wanted:
		return nil
	}
	code := cli.ExitInterrupted
	var signal *cli.SignalError
	switch {
	case late:
		code = cli.ExitDiffer
	case errors.As(r.result.Cause, &signal):
		code = signal.Exit()
	}
	return cli.Coded(code, "%v: %d requests were cancelled; the report is about %d of %d",
		r.result.Cause, r.result.Cancelled, r.result.Report.Completed, len(r.workload.Turns))
}
