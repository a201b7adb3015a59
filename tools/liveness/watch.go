package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/replay/offline"
	"github.com/replay-llm/replay/sim"
)

// grace is how much longer than its time a run may take to notice that it was
// told to end.
const grace = 2 * time.Second

// watchTrial runs x, for the given time at most.
func watchTrial(x *trial, patience time.Duration) ending {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	done := make(chan ending, 1)
	started := time.Now()
	go func() { done <- x.run(ctx) }()
	select {
	case e := <-done:
		e.took = time.Since(started)
		if e.kind <= refused && e.took > patience || ctx.Err() != nil && e.kind == wrong {
			e.kind = late
		}
		return e
	case <-time.After(patience + grace):
		return ending{trial: x, kind: endless, took: time.Since(started), why: "it cannot be stopped"}
	}
}

// run runs x to its end and catches panics.
func (x *trial) run(ctx context.Context) (e ending) {
	e.trial = x
	defer func() {
		if p := recover(); p != nil {
			e.kind, e.why = panicked, fmt.Sprintf("%v\n%s", p, debug.Stack())
		}
	}()
	c, err := x.buildConfig()
	if err != nil {
		e.judgeResult(nil, nil, err)
		return e
	}
	var r *harness.Result
	if x.steps > 0 {
		r, err = x.runStepwise(ctx, c)
	} else {
		r, err = offline.Run(ctx, c)
	}
	e.judgeResult(c.Workload, r, err)
	return e
}

// buildConfig returns x as a replay takes it.
func (x *trial) buildConfig() (offline.Config, error) {
	w, err := x.buildWorkload()
	if err != nil {
		return offline.Config{}, err
	}
	c := offline.Config{Config: harness.Config{
		Workload: w, Admission: loadgen.Admission{Mode: loadgen.Trace, Speedup: x.speedup},
		Topology: engines.Topology{
			Pools: x.pools, Router: x.router, RouterConfig: &x.routerConfig, Scale: x.scale, Seed: x.seed, Compat: x.compat,
		},
	}, Reject: x.reject, Until: x.until}
	if x.inFlight > 0 {
		c.Admission = loadgen.Admission{Mode: loadgen.Concurrency, MaxInFlight: x.inFlight}
	}
	return c, nil
}

func (x *trial) buildWorkload() (*loadgen.Workload, error) {
	if x.synthetic != nil {
		return loadgen.NewSynthetic(*x.synthetic)
	}
	o := formats.Options{Format: formats.Mooncake, TraceBlock: x.tokens, Compat: x.compat}
	if x.tags.Has("agentic") {
		o.Format, o.SharedRatio, o.Groups = formats.Agentic, 0.5, 2
	}
	return formats.Read(strings.NewReader(x.trace), "trace", o)
}

// runStepwise replays c as a planner does, x.steps looks in all before it lets go.
func (x *trial) runStepwise(ctx context.Context, c offline.Config) (*harness.Result, error) {
	s, err := offline.NewStepper(c)
	if err != nil {
		return nil, err
	}
	for i := range x.steps {
		if _, err := s.AdvanceTo(ctx, sim.Time(20*i)); err != nil {
			return nil, err
		}
		if err := s.Scale(1+(i+1)%2, 1+i%3); err != nil {
			return nil, err
		}
		s.Traffic()
	}
	if _, err := s.AdvanceTo(ctx, forever); err != nil {
		return nil, err
	}
	return s.Finish()
}

// forever is later than any replay of a trial.
const forever = 1e15
