package options

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/cmd/internal/cli"
)

// live holds the flags of a replay in real time.
type live struct {
	Barrier  bool
	Disagg   bool
	Precise  cli.Choice
	Deadline time.Duration
}

func (l *live) bindFlags(fs *pflag.FlagSet) {
	l.Precise = cli.Choice{Names: []string{"timer", "spin"}, Value: "timer"}
	fs.BoolVar(&l.Barrier, "online-barrier", true, "let a worker wait, up to 2 ms, until the request that a completion lets in is there")
	fs.BoolVar(&l.Disagg, "online-disagg", false, "take prefill and decode workers of their own in real time too")
	fs.Var(&l.Precise, "precise", "how workers wait, by `name`: timer, or spin, which looks at the clock in the end\nand takes a processor per worker")
	fs.DurationVar(&l.Deadline, "deadline", 0, "end the run after so much real `time`, as 90s, and report what there is; exit code 3")
}

// RealEnd returns when a replay in real time ends early, 0 for never, and whether
// --until asks for that, so that it is no error.
func (o *Options) RealEnd() (after time.Duration, wanted bool) {
	until := time.Duration(float64(o.Limits.Until.At) * float64(time.Millisecond))
	if until > 0 && (o.Live.Deadline == 0 || until <= o.Live.Deadline) {
		return until, true
	}
	return o.Live.Deadline, false
}

// ModeFlags are those that only some mode knows but that of the logical clock.
func (o *Options) ModeFlags() []string {
	return append(liveFlags(), append(processFlags(), o.Processes.RuntimeNames()...)...)
}

// liveFlags are those that only a replay in real time knows.
func liveFlags() []string {
	return []string{"online-barrier", "online-disagg", "precise", "deadline"}
}

// IsLive reports whether the replay is in real time.
func (o *Options) IsLive() bool { return o.Cluster.mode.Value == "online" }

// checkLive refuses flags of no effect in the chosen mode.
func (o *Options) checkLive() error {
	if err := o.checkProcesses(); err != nil || o.IsCluster() {
		return err
	}
	if !o.IsLive() {
		if name := o.FirstChanged(liveFlags()...); name != "" {
			return o.Only(name, "with --mode online")
		}
		return nil
	}
	for _, name := range []string{"scale", "until", "out", "digest"} {
		if o.Changed(name) {
			return o.Only(name, "with --mode offline")
		}
	}
	switch {
	case o.Limits.oversize.Value == "reject":
		return o.Refuse("oversize", "error with --mode online")
	case o.Changed("deadline") && o.Live.Deadline <= 0:
		return o.Refuse("deadline", "a time above 0")
	case o.Live.Disagg && !o.TwoPools():
		return o.Only("online-disagg", "where prefill and decode have workers of their own")
	case !o.Live.Disagg && o.TwoPools():
		return o.Only(o.twoPoolFlag(), "with --mode offline, or with --online-disagg")
	}
	return nil
}

// twoPoolFlag is a flag that gave prefill and decode workers of their own.
func (o *Options) twoPoolFlag() string {
	if name := o.FirstChanged("prefill-engine-args", "decode-engine-args", "prefill-workers", "decode-workers"); name != "" {
		return name
	}
	for _, own := range o.Engine.Own {
		for _, s := range GivenOf(own) {
			return s.Name
		}
	}
	return "mode"
}
