package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/offline"
	"github.com/replay-llm/replay/replay/online"
)

// live holds the flags of a replay in real time.
type live struct {
	barrier  bool
	disagg   bool
	precise  choice
	deadline time.Duration
}

func (l *live) bind(fs *pflag.FlagSet) {
	l.precise = choice{names: []string{"timer", "spin"}, value: "timer"}
	fs.BoolVar(&l.barrier, "online-barrier", true, "let a worker wait, up to 2 ms, until the request that a completion lets in is there")
	fs.BoolVar(&l.disagg, "online-disagg", false, "take prefill and decode workers of their own in real time too")
	fs.Var(&l.precise, "precise", "how workers wait, by `name`: timer, or spin, which looks at the clock in the end\nand takes a processor per worker")
	fs.DurationVar(&l.deadline, "deadline", 0, "end the run after so much real `time`, as 90s, and report what there is; exit code 3")
}

// modeFlags are those that only some mode knows but that of the logical clock.
func (o *options) modeFlags() []string {
	return append(liveFlags(), append(processFlags(), o.processes.runtimeNames()...)...)
}

// liveFlags are those that only a replay in real time knows.
func liveFlags() []string {
	return []string{"online-barrier", "online-disagg", "precise", "deadline"}
}

// isLive says that the replay is in real time.
func (o *options) isLive() bool { return o.cluster.mode.value == "online" }

// checkLive refuses flags of no effect in the chosen mode.
func (o *options) checkLive() error {
	if err := o.checkProcesses(); err != nil || o.isCluster() {
		return err
	}
	if !o.isLive() {
		if name := o.firstChanged(liveFlags()...); name != "" {
			return o.only(name, "with --mode online")
		}
		return nil
	}
	for _, name := range []string{"scale", "until", "out", "digest"} {
		if o.changed(name) {
			return o.only(name, "with --mode offline")
		}
	}
	switch {
	case o.limits.oversize.value == "reject":
		return o.refuse("oversize", "error with --mode online")
	case o.changed("deadline") && o.live.deadline <= 0:
		return o.refuse("deadline", "a time above 0")
	case o.live.disagg && !o.twoPools():
		return o.only("online-disagg", "where prefill and decode have workers of their own")
	case !o.live.disagg && o.twoPools():
		return o.only(o.twoPoolFlag(), "with --mode offline, or with --online-disagg")
	}
	return nil
}

// twoPoolFlag is a flag that gave prefill and decode workers of their own.
func (o *options) twoPoolFlag() string {
	if name := o.firstChanged("prefill-engine-args", "decode-engine-args", "prefill-workers", "decode-workers"); name != "" {
		return name
	}
	for _, own := range o.engine.own {
		for _, s := range given(own) {
			return s.name
		}
	}
	return "mode"
}

// liveRun is a replay in real time and how it ended.
type liveRun struct {
	ended *online.Result // nil before its end, and for one on the logical clock
}

// run replays spec in real time, shown to whoever watches.
func (l *liveRun) run(ctx context.Context, o *options, spec *replay.Spec, streams replay.Streams) (*offline.Result, error) {
	r, err := spec.RunLive(ctx, streams, replay.Live{
		TwoPools: o.live.disagg, NoBarrier: !o.live.barrier, Precise: o.live.precise.value == "spin", Deadline: o.live.deadline,
	})
	if err != nil {
		return nil, err
	}
	l.ended = r
	return &offline.Result{Report: r.Report, Collector: r.Collector, Partial: r.Partial()}, nil
}

// end is the error of a run that ended early, once its report is written.
func (l *liveRun) end(total int) error {
	switch {
	case l.ended == nil:
		return nil
	case !l.ended.Partial() && len(l.ended.Failed) > 0:
		return coded(exitIncomplete, "%s", online.Summary(l.ended.Failed))
	case !l.ended.Partial():
		return nil
	}
	code := exitInterrupted
	var signal *signalError
	switch {
	case errors.Is(l.ended.Cause, online.ErrDeadline):
		code = exitDiffer
	case errors.As(l.ended.Cause, &signal):
		code = signal.exit()
	}
	return coded(code, "%v: %d requests were cancelled; the report is about %d of %d", l.ended.Cause, l.ended.Cancelled, l.ended.Report.Completed, total)
}
