package replay_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/replay/caches"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/custom"
	"github.com/replay-llm/replay/sim"
)

// planner is an engine that is a function.
type planner func(p *custom.Plan)

func (f planner) Plan(p *custom.Plan) { f(p) }

// planWith returns engines that plan like FirstCome. On worker 1, before is called first and may plan instead.
func planWith(before func(p *custom.Plan) (instead bool)) replay.Streams {
	return replay.Streams{Engine: func(o custom.Options) (custom.Engine, error) {
		first := &custom.FirstCome{Options: o}
		return planner(func(p *custom.Plan) {
			if o.Worker != 1 || !before(p) {
				first.Plan(p)
			}
		}), nil
	}}
}

func engineSpec() replay.Spec {
	return replay.Spec{
		Synthetic: loadgen.Synthetic{Requests: 60, Input: 700, Output: 20, Interval: 30, Turns: 1},
		Speedup:   1, Topology: replay.Topology{Pools: replay.OnePool(engineargs.Default(), 2)},
	}
}

// TestWrongPlansEndTheReplay checks that a wrong plan of an engine ends the replay with an error. The error names the
// worker, the instant, the request and the rule, in every driver.
func TestWrongPlansEndTheReplay(t *testing.T) {
	head := func(p *custom.Plan) sim.RequestID {
		return append(p.Running[:len(p.Running):len(p.Running)], p.Waiting...)[0].ID
	}
	for want, plan := range map[string]func(*custom.Plan) bool{
		"is given 701 tokens, must be 1 to the 700 that it has left": func(p *custom.Plan) bool { p.Compute(head(p), 701); return true },
		"is given 0 tokens":                      func(p *custom.Plan) bool { p.Compute(head(p), 0); return true },
		"request 59 is not on this worker":       func(p *custom.Plan) bool { p.Compute(59, 1); return true },
		"request 1000000 is not on this worker":  func(p *custom.Plan) bool { p.Compute(1_000_000, 1); return true },
		"request -5 is not on this worker":       func(p *custom.Plan) bool { p.Preempt(-5); return true },
		"is to lose its place, and has none":     func(p *custom.Plan) bool { p.Preempt(head(p)); return true },
		"a second time in the pass":              func(p *custom.Plan) bool { p.Compute(head(p), 1); return false },
		"to wait until +Inf ms at ":              func(p *custom.Plan) bool { p.WaitUntil(sim.Time(math.Inf(1))); return true },
		"to wait until NaN ms at ":               func(p *custom.Plan) bool { p.WaitUntil(sim.Time(math.NaN())); return true },
		"to wait in a pass that computes":        func(p *custom.Plan) bool { p.WaitUntil(p.Now + 1); return false },
		"the engine has planned nothing":         func(*custom.Plan) bool { return true },
		"100000 passes in a row without a token": func(p *custom.Plan) bool { p.WaitUntil(p.Now + 1e-9); return true },
	} {
		for _, route := range []policy.Name{policy.RoundRobin, "least-loaded", policy.KV} {
			for _, mode := range []loadgen.Mode{loadgen.Trace, loadgen.Concurrency} {
				spec := engineSpec()
				spec.Router, spec.Mode, spec.MaxInFlight = route, mode, 4
				_, err := spec.Run(context.Background(), planWith(plan))
				if err == nil || !strings.Contains(err.Error(), "worker 1") || !strings.Contains(err.Error(), want) {
					t.Errorf("router %s, mode %v: got %v, want %q", route, mode, err, want)
				}
			}
		}
	}
	spec := engineSpec()
	_, err := spec.Run(context.Background(), planWith(func(p *custom.Plan) bool { p.Compute(1, 701); return true }))
	const whole = "worker 1 at 30 ms: session_1 turn 0: the plan of the engine: request 1 is given 701 tokens, must be 1 to the 700 that it has left"
	if err == nil || err.Error() != whole {
		t.Errorf("got %v, want %s", err, whole)
	}
}

// TestPlansAreHeldToTheBlocks checks an engine with too few KV blocks for its plan.
func TestPlansAreHeldToTheBlocks(t *testing.T) {
	spec := engineSpec()
	spec.Pools[0].Engine.Blocks = 20
	_, err := spec.Run(context.Background(), replay.Streams{Engine: func(custom.Options) (custom.Engine, error) {
		return planner(func(p *custom.Plan) {
			for _, r := range append(p.Running, p.Waiting...) {
				p.Compute(r.ID, r.Left()-p.Cached(r.ID))
			}
		}), nil
	}})
	var plan *custom.PlanError
	if !errors.As(err, &plan) || !strings.Contains(plan.Reason, "which take 11 free KV blocks, and 9 of 20 are free") {
		t.Errorf("got %v", err)
	}
}

// TestEnginesThatAreNotThere checks a worker without an engine, and requests that fit on no engine.
func TestEnginesThatAreNotThere(t *testing.T) {
	spec := engineSpec()
	failing := errors.New("no engine today")
	if _, err := spec.Run(context.Background(), replay.Streams{Engine: func(custom.Options) (custom.Engine, error) { return nil, failing }}); !errors.Is(err, failing) {
		t.Errorf("got %v, want %v", err, failing)
	}
	if _, err := spec.Run(context.Background(), replay.Streams{Engine: func(custom.Options) (custom.Engine, error) { return nil, nil }}); err == nil || !strings.Contains(err.Error(), "the engine of worker 0: there is none") {
		t.Errorf("got %v", err)
	}
	spec.Pools[0].Engine.Blocks = 8
	if _, err := spec.Run(context.Background(), replay.Streams{Engine: newFirstCome}); err == nil || !strings.Contains(err.Error(), "num_gpu_blocks 12 would admit them all") {
		t.Errorf("got %v", err)
	}
	spec.Reject = true
	if result, err := spec.Run(context.Background(), replay.Streams{Engine: newFirstCome}); err != nil || len(result.Rejected) != 60 {
		t.Errorf("got %v", err)
	}
}

// TestOwnEngineRefusals checks that settings that are not supported with a custom engine are rejected.
func TestOwnEngineRefusals(t *testing.T) {
	own := replay.Streams{Engine: newFirstCome}
	for want, change := range map[string]func(*replay.Spec, *replay.Streams){
		"in prefill and decode pools": func(s *replay.Spec, _ *replay.Streams) {
			prefill, decode := engineargs.Default(), engineargs.Default()
			prefill.Role, decode.Role = scheduler.Prefill, scheduler.Decode
			s.Pools = replay.TwoPools(replay.Pool{Engine: prefill, Count: 1}, replay.Pool{Engine: decode, Count: 1})
		},
		"the reference's rules": func(s *replay.Spec, _ *replay.Streams) { s.Compat = true },
		`engine_type "sglang"`:  func(s *replay.Spec, _ *replay.Streams) { s.Pools[0].Engine.Engine = engineargs.SGLang },
		"host memory":           func(s *replay.Spec, _ *replay.Streams) { s.Pools[0].Engine.G2.Blocks = 10 },
		"dp_size 2": func(s *replay.Spec, _ *replay.Streams) {
			s.Pools[0].Engine.Rules, s.Pools[0].Engine.DPSize = firstComeRules(), 2
		},
		"takes longer": func(s *replay.Spec, _ *replay.Streams) { s.Pools[0].Engine.Warmup.Time = 3 },
		"sliding windows": func(s *replay.Spec, _ *replay.Streams) {
			s.Pools[0].Engine.Windows.Groups, s.Pools[0].Engine.Windows.Tokens = 1, 64
		},
		"drafts":               func(s *replay.Spec, _ *replay.Streams) { s.Pools[0].Engine.Speculative = &engineargs.Speculative{} },
		"caches to begin with": func(s *replay.Spec, _ *replay.Streams) { s.Warm = &caches.File{} },
		"caches that are kept": func(_ *replay.Spec, x *replay.Streams) { x.SaveCaches = &harness.SaveCaches{} },
		"events of KV caches":  func(_ *replay.Spec, x *replay.Streams) { x.KVEvents = true },
		"a trace that is not kept": func(s *replay.Spec, _ *replay.Streams) {
			s.Trace, s.Stream = &replay.Trace{Path: "../testdata/traces/chat-hour.jsonl", Detect: true}, &replay.Stream{}
		},
		"a perfect autoscaler": func(s *replay.Spec, _ *replay.Streams) {
			s.Autoscale = &replay.Autoscale{Kind: autoscale.Foreknown, Min: 1, Max: 4, Sync: 1000, Interval: 500, Load: &autoscale.Load{InFlight: 8}}
		},
	} {
		spec, streams := engineSpec(), own
		change(&spec, &streams)
		if _, err := spec.Run(context.Background(), streams); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
	spec := engineSpec()
	if _, err := spec.Steps(context.Background(), own); err == nil || !strings.Contains(err.Error(), "in steps") {
		t.Errorf("in steps: %v", err)
	}
	if _, err := spec.RunLive(context.Background(), own, replay.Live{}); err == nil || !strings.Contains(err.Error(), "in real time") {
		t.Errorf("in real time: %v", err)
	}
}

// TestOwnEngineIsInterrupted checks that the context ends a replay with a slow engine.
func TestOwnEngineIsInterrupted(t *testing.T) {
	for _, workers := range []int{1, 2} {
		ctx, cancel := context.WithCancel(context.Background())
		spec := engineSpec()
		spec.Pools[0].Count = workers
		plans := 0
		_, err := spec.Run(ctx, replay.Streams{Engine: func(custom.Options) (custom.Engine, error) {
			return planner(func(p *custom.Plan) {
				if plans++; plans == 1000 {
					cancel()
				}
				p.WaitUntil(p.Now + 1e-3)
			}), nil
		}})
		if !errors.Is(err, context.Canceled) || plans > 2000 {
			t.Errorf("%d workers: after %d plans: %v", workers, plans, err)
		}
	}
}

// batches is an engine that collects requests for a while and computes them together to their end.
type batches struct{ until sim.Time }

func (e *batches) Plan(p *custom.Plan) {
	if len(p.Running) == 0 {
		if e.until <= p.Now && len(p.Waiting) < 4 {
			e.until = p.Now + 25
		}
		if len(p.Waiting) < 4 && p.Now < e.until {
			p.WaitUntil(e.until)
			return
		}
		for _, r := range p.Waiting {
			if p.Fits(r.ID, r.Input) {
				p.Compute(r.ID, r.Left()-p.Cached(r.ID))
			}
		}
		return
	}
	for _, r := range p.Running {
		p.Compute(r.ID, r.Left())
	}
}

// turns is round robin as a custom policy, which declares that it reads the requests of workers.
func turns(policy.Options) (router.Policy, error) {
	n := -1
	return given{router.Needs{Running: true}, func(_ *sim.Request, c *router.Candidates) sim.WorkerID {
		n++
		return c.Workers[n%len(c.Workers)]
	}}, nil
}

// TestWaitsAreTheSameInAllDrivers checks that the waits of an engine do not depend on the driver.
func TestWaitsAreTheSameInAllDrivers(t *testing.T) {
	gather := func(custom.Options) (custom.Engine, error) { return new(batches), nil }
	spec := engineSpec()
	spec.Pools[0].Count = 3
	want := runEngine(t, &spec, replay.Streams{Engine: gather})
	for name, change := range map[string]func(*replay.Spec, *replay.Streams){
		"to the next arrival": func(s *replay.Spec, _ *replay.Streams) { s.Router = &policy.Given{Make: turns} },
		"by events":           func(s *replay.Spec, _ *replay.Streams) { s.Changes = []replay.Change{{At: 1e6, Speedup: 1}} },
		"observed":            func(_ *replay.Spec, x *replay.Streams) { x.Observer = harness.NoObserver{} },
	} {
		other, streams := spec, replay.Streams{Engine: gather}
		change(&other, &streams)
		if got := runEngine(t, &other, streams); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s", name, firstDifference(got, want))
		}
	}
	if waits := want.records[0].First - want.records[0].Arrival; waits < 25 {
		t.Errorf("the first token comes after %v ms, want requests gathered for 25 ms", waits)
	}
}
