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

// Streams are the inputs of a run, and its callbacks.
type Streams struct {
	Stdin io.Reader // read when the trace is "-"
	// Warn, if not nil, is called once for each remarkable property of the trace.
	Warn func(string)
	// Progress, if not nil, is called from time to time with the number of requests that have finished.
	Progress func(finished, requests int)
	// Stop, if not nil, is called after each step with the requests so far. An error of Stop ends the replay, and Run
	// returns this error. Stop is supported on the logical clock, and workers are then simulated one after the other.
	Stop func(c *collector.Collector, finished int) error
	// Opened, if not nil, is called with the workload before the replay.
	Opened func(*loadgen.Workload)
	// Observer, if not nil, receives all events. With KVEvents, Observer also receives the events of KV caches (only
	// on the logical clock).
	Observer harness.Observer
	KVEvents bool
	// Engine, if not nil, makes the engine of each worker, which decides what passes compute. Engine replaces the
	// engine of the worker's arguments. Engine is called when a worker starts, including later and returning workers.
	// Engine is supported on the logical clock with one pool.
	Engine func(custom.Options) (custom.Engine, error)
	// SaveCaches configures saving the caches of workers, on the logical clock; nil: not saved.
	SaveCaches *harness.SaveCaches
	// Fold folds ended requests, so that memory holds only requests in flight; nil: all records are kept. The caller
	// must close the collector of the result, which has no records. Fold is supported on the logical clock.
	Fold *collector.Folding
	// Once reports that the opened workload is replayed once and that its hash ids are not read later. The hash ids
	// of many requests are freed after the start.
	Once bool
	// Threads is the maximum number of goroutines that read the trace or simulate; 0: 1. The result does not depend
	// on Threads. Only the logical clock uses Threads for the simulation.
	Threads int
	// Scaler, if not nil, replaces the Kind of the Spec's Autoscale and AutoscaleDecode. The other fields of
	// Autoscale and AutoscaleDecode also apply: the signals of the scaler and the startup of workers.
	Scaler autoscale.Scaler
}

// Run replays s to its end. If ctx is done, Run stops early and returns ctx's error.
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

// RunOn is Run with a workload that Open has returned. Several replays may share a workload, because it does not
// change.
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

// Steps opens a replay of s in trace mode that the caller advances step by step. Between steps, a planner can read
// the cluster and resize its pools. A KV router with a single worker is supported.
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

// offlineConfig returns the configuration of a replay on the logical clock.
func (s *Spec) offlineConfig(workload *loadgen.Workload, streams Streams) offline.Config {
	return offline.Config{Config: s.harnessConfig(workload, streams), Until: s.Until, Reject: s.Reject, Threads: streams.Threads}
}

// harnessConfig returns the configuration of a replay on either clock. harnessConfig calls streams.Opened.
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

// Fork opens a replay of s that can be copied and continued differently, with the changes of Possible.
func (s *Spec) Fork(ctx context.Context, workload *loadgen.Workload) (*offline.Fork, error) {
	return s.ForkObserved(ctx, workload, nil)
}

// ForkObserved is Fork with an observer, which may be nil. Each copy of the replay has a copy of the observer.
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
