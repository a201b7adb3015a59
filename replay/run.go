package replay

import (
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/replay/offline"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler/custom"
)

// Streams are what a run reads, and its observers.
type Streams struct {
	Stdin io.Reader // read when the trace is "-"
	// Warn, when not nil, is called once for whatever is remarkable in the trace.
	Warn func(string)
	// Progress, when not nil, is called now and then with the number of requests that
	// have finished.
	Progress func(finished, requests int)
	// Stop, when not nil, is called after each step with the requests so far. Its error ends the replay, and Run returns it. On the
	// logical clock; one worker is simulated after the other then.
	Stop func(c *collector.Collector, finished int) error
	// Opened, when not nil, is shown the workload before it is replayed.
	Opened func(*loadgen.Workload)
	// Observer, when not nil, is shown everything that happens, with KVEvents also the
	// events of KV caches (on the logical clock).
	Observer harness.Observer
	KVEvents bool
	// Engine, when not nil, makes the engine of each worker, instead of the one of its arguments: it decides what
	// passes compute. It is called when a worker comes, also later and returning ones. On the logical clock, with one pool.
	Engine func(custom.Options) (custom.Engine, error)
	// SaveCaches keeps what workers have cached, on the logical clock; nil: not kept.
	SaveCaches *harness.SaveCaches
	// Fold has requests folded that are over, so that memory holds those in flight alone; nil: all are kept. The
	// collector of the result is to be closed. On the logical clock; it has no records.
	Fold *collector.Folding
	// Once reports that the opened workload is replayed once, and that its hash ids are not read later: ids of many
	// requests are gone after the start.
	Once bool
	// Threads is how many goroutines may read the trace or simulate at once; 0 is 1. The result does not depend on it.
	// Simulation: on the logical clock.
	Threads int
	// Scaler, when not nil, decides instead of the Kind of the Spec's Autoscale and
	// AutoscaleDecode; its signals and the start of workers are theirs.
	Scaler autoscale.Scaler
}

// Run replays s to its end. It stops early, with ctx's error, when ctx is done.
func (s *Spec) Run(ctx context.Context, streams Streams) (*harness.Result, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	workload, err := s.Open(ctx, streams)
	if err != nil {
		return nil, err
	}
	defer workload.Close()
	return s.RunOn(ctx, workload, streams)
}

// RunOn is Run on a workload that Open has read before. Many replays may share
// one: nothing in it changes.
func (s *Spec) RunOn(ctx context.Context, workload *loadgen.Workload, streams Streams) (result *harness.Result, err error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if streams.Scaler != nil && !s.Autoscales() {
		return nil, errors.New("a scaler requires an Autoscale, which sets what the scaler sees")
	}
	for _, a := range []*Autoscale{s.Autoscale, s.AutoscaleDecode} {
		if a != nil && a.Kind == autoscale.Custom && streams.Scaler == nil {
			return nil, errors.New("an Autoscale without a kind of scaler requires a custom Scaler")
		}
	}
	if err := cmp.Or(s.checkProcess(), s.checkEngine(&streams)); err != nil {
		return nil, err
	}
	loads, err := s.foresee(ctx, workload, streams.Scaler == nil)
	if err != nil {
		return nil, err
	}
	programs := processes{ctx: ctx}
	if p, ok := s.Router.(*policy.Process); ok {
		own := *s
		own.Router = programs.choiceOf(p)
		s = &own
	}
	if s.Recycle {
		if workload, err = s.recycle(ctx, workload, streams); err != nil {
			return nil, err
		}
	}
	cfg := s.beginPerfect(loads).offlineConfig(workload, streams)
	cfg.Foreseen = loads
	if cfg.Scalers, err = programs.scalersOf(s, streams.Scaler); err == nil {
		result, err = offline.Run(ctx, cfg)
	}
	if err == nil {
		err = result.Collector.CheckWindow()
	}
	if err = programs.end(err); err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	} else if err != nil {
		return nil, err
	}
	result.Facts = programs.facts
	return result, nil
}

// Steps opens a replay of s, in trace mode, that advances as far as its caller
// asks: a planner reads the cluster in between and changes the size of its
// pools. A KV router may have a single worker.
func (s *Spec) Steps(ctx context.Context, streams Streams) (*offline.Stepper, error) {
	if err := cmp.Or(s.checkMode(), s.refuseStream("a replay in steps"), s.Topology.Validate()); err != nil {
		return nil, err
	}
	if streams.Engine != nil {
		return nil, errors.New("a custom engine is not supported in a replay in steps, must be one that runs to its end")
	}
	if policy.Is[*policy.Process](s.Router) {
		return nil, errors.New("a policy process is not supported in a replay in steps, use a policy of this program")
	}
	if err := s.refuseScalers("a replay in steps"); err != nil {
		return nil, err
	}
	workload, err := s.Open(ctx, streams)
	if err != nil {
		return nil, err
	}
	cfg := s.offlineConfig(workload, streams)
	cfg.Scalers = [2]autoscale.Scaler{streams.Scaler, streams.Scaler}
	return offline.NewStepper(cfg)
}

// offlineConfig is the replay of a workload on a logical clock.
func (s *Spec) offlineConfig(workload *loadgen.Workload, streams Streams) offline.Config {
	return offline.Config{Config: s.harnessConfig(workload, streams), Until: s.Until, Reject: s.Reject, Threads: streams.Threads}
}

// harnessConfig is the configuration of the replay of a workload on either clock. The caller can read the workload.
func (s *Spec) harnessConfig(workload *loadgen.Workload, streams Streams) harness.Config {
	if streams.Opened != nil {
		streams.Opened(workload)
	}
	c := harness.Config{
		Topology: s.Topology, Workload: workload, Stop: streams.Stop, Observer: streams.Observer, KVEvents: streams.KVEvents, Engine: streams.Engine, Warm: s.Warm, Save: streams.SaveCaches, Fold: streams.Fold, Once: streams.Once,
		Admission: loadgen.Admission{Mode: s.Mode, MaxInFlight: s.MaxInFlight, Speedup: s.Speedup},
		Window:    s.Window,
	}
	if s.Recycle {
		c.Admission.Stop = s.Window.To
	}
	if streams.Progress != nil {
		c.Progress = func(finished int) { streams.Progress(finished, len(workload.Turns)) }
	}
	return c
}

// Fork opens a replay of s on a workload that can continue in several ways, with the changes of Possible.
func (s *Spec) Fork(ctx context.Context, workload *loadgen.Workload) (*offline.Fork, error) {
	return s.ForkObserved(ctx, workload, nil)
}

// ForkObserved is Fork of a replay that is shown to an observer, if not nil. Each copy has a copy of it.
func (s *Spec) ForkObserved(ctx context.Context, workload *loadgen.Workload, o harness.Observer) (*offline.Fork, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if err := cmp.Or(s.refuseStream("a replay that is forked"), s.refuseScalers("a replay that is forked")); err != nil {
		return nil, err
	}
	if s.Recycle {
		return nil, errors.New("a fork is not supported with a recycled workload")
	}
	cfg := s.offlineConfig(workload, Streams{Observer: o})
	var err error
	if cfg.Foreseen, err = s.foresee(ctx, workload, true); err != nil {
		return nil, err
	}
	return offline.NewFork(cfg)
}
