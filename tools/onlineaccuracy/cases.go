package main

import (
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/generate"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/online"
	"github.com/replay-llm/replay/router/policy"
)

// trial is a workload and a cluster, replayed in both modes.
type trial struct {
	name    string
	spec    replay.Spec
	live    replay.Live
	bounds  bounds
	atLeast bool // the duration must be longer by at least bounds.duration
}

// bounds are the maximum differences between a run in real time and its twin on the logical clock. A difference is a
// share of the twin's value. If a bound in ms is higher, the bound in ms applies instead.
type bounds struct {
	duration, ttft, ttftMS, itl, itlMS float64
	e2e, reuse                         float64
	countsAndDuration                  bool // only counts and the duration have bounds
}

// withE2E returns bounds with the given bound for whole requests.
func (b bounds) withE2E(share float64) bounds {
	b.e2e = share
	return b
}

// openLoop returns an open-loop replay with the given changes.
func openLoop(engine engineargs.Engine, w loadgen.Synthetic, workers int, changes ...func(*replay.Spec)) replay.Spec {
	a := engineargs.Default()
	a.Engine, a.BlockTokens = engine, 64
	s := replay.Spec{
		Synthetic: w, Mode: loadgen.Trace, Speedup: 1, Topology: replay.Topology{Pools: replay.OnePool(a, workers)},
	}
	for _, change := range changes {
		change(&s)
	}
	return s
}

func withKVRouter(s *replay.Spec) { s.Router = policy.KV }

func withSpeedup(arrivals, engine float64) func(*replay.Spec) {
	return func(s *replay.Spec) { s.Speedup, s.Entry().Engine.Speedup = arrivals, engine }
}

// withInFlight sets the concurrency of a closed loop.
func withInFlight(requests int) func(*replay.Spec) {
	return func(s *replay.Spec) { s.Mode, s.MaxInFlight = loadgen.Concurrency, requests }
}

// withTwoPools makes a prefill and a decode pool with the current number of workers each.
func withTwoPools(s *replay.Spec) {
	s.Pools = engines.TwoPools(*s.Entry(), *s.Entry())
	for i := range s.Pools {
		s.Pools[i].Engine.Role = s.Pools[i].Role
	}
}

// fourInFlight returns a replay with four requests in flight. The answers have different lengths, so that they do not
// end together.
func fourInFlight(engine engineargs.Engine, output string, workers int) replay.Spec {
	return openLoop(engine, loadgen.Synthetic{}, workers, withInFlight(4), func(s *replay.Spec) {
		s.Trace = &replay.Trace{BlockTokens: 64, Made: generate.Config{
			Arrivals: "constant", Rate: 25, Requests: 60, Block: 64, Seed: 42,
			Classes: []generate.Class{{Name: "all", Weight: 1, Input: "512", Output: output, Prefix: "groups:count=4,tokens=256"}},
		}}
	})
}

// listTrials returns the rows of the table.
func listTrials() []trial {
	// The bounds of whole requests are closer if workers are used more than half of the time.
	roundRobin := bounds{duration: 0.005, ttft: 0.04, ttftMS: 1.5, itl: 0.02, itlMS: 0.15, e2e: 0.04}
	kvRouter := bounds{duration: 0.015, ttft: 0.10, ttftMS: 3, itl: 0.02, itlMS: 0.15, e2e: 0.12, reuse: 0.02}
	oneWorker := bounds{duration: 0.01, ttft: 0.05, ttftMS: 2, itl: 0.02, itlMS: 0.15, e2e: 0.02, reuse: 0.02}
	severalWorkers := bounds{duration: 0.03, ttft: 0.03, ttftMS: 0.5, itl: 0.03, itlMS: 0.15, e2e: 0.03, reuse: 0.02}
	lag, fast := bounds{duration: 0.08}, roundRobin
	fast.countsAndDuration = true

	forty := loadgen.Synthetic{Requests: 40, Input: 512, Output: 16, Interval: 40, Turns: 1, SharedRatio: 0.5, Groups: 4}
	dense := loadgen.Synthetic{Requests: 200, Input: 512, Output: 16, Interval: 5, Turns: 1, SharedRatio: 0.5, Groups: 4}
	sixHundred := loadgen.Synthetic{Requests: 600, Input: 1024, Output: 64, Interval: 8, Turns: 1, SharedRatio: 0.5, Groups: 8}
	sessions := loadgen.Synthetic{Requests: 6, Input: 512, Output: 16, Interval: 60, Turns: 3, Delay: 100, SharedRatio: 0.5, Groups: 2}
	var all []trial
	for _, e := range []engineargs.Engine{engineargs.VLLM, engineargs.SGLang} {
		for _, t := range []trial{
			{name: "40 req/40 ms, 2 workers", spec: openLoop(e, forty, 2), bounds: roundRobin},
			{name: "same, kv", spec: openLoop(e, forty, 2, withKVRouter), bounds: kvRouter},
			{name: "600 req/8 ms, 4 workers", spec: openLoop(e, sixHundred, 4), bounds: roundRobin.withE2E(0.02)},
			{name: "same, kv", spec: openLoop(e, sixHundred, 4, withKVRouter), bounds: kvRouter.withE2E(0.04)},
			{name: "6 sessions of 3 turns, 2 workers", spec: openLoop(e, sessions, 2), bounds: roundRobin},
			{name: "same, concurrency 2", spec: openLoop(e, sessions, 2, withInFlight(2)), bounds: severalWorkers},
			{name: "concurrency 4, 1 worker", spec: fourInFlight(e, "uniform:min=4,max=28", 1), bounds: oneWorker},
			{name: "concurrency 4, 2 workers", spec: fourInFlight(e, "uniform:min=4,max=28", 2), bounds: severalWorkers},
		} {
			t.name = e.String() + ": " + t.name
			all = append(all, t)
		}
	}
	const v = engineargs.VLLM
	turns := loadgen.Synthetic{Requests: 48, Input: 512, Output: 16, Turns: 3, SharedRatio: 0.5, Groups: 4}
	return append(all,
		trial{name: "concurrency 16, 3 turns, 2 workers", spec: openLoop(v, turns, 2, withInFlight(16)), bounds: severalWorkers},
		trial{name: "same, 2 prefill and 2 decode workers", spec: openLoop(v, turns, 2, withInFlight(16), withTwoPools), live: replay.Live{TwoPools: true}, bounds: severalWorkers},
		trial{name: "40 req/40 ms, 1 worker", spec: openLoop(v, forty, 1), bounds: roundRobin},
		trial{name: "same, arrival speed-up 4", spec: openLoop(v, forty, 2, withSpeedup(4, 1)), bounds: roundRobin.withE2E(0.02)},
		trial{name: "200 req/5 ms, 2 workers", spec: openLoop(v, dense, 2), bounds: roundRobin.withE2E(0.02)},
		trial{name: "engine speed-up 100, 200 req/5 ms", spec: openLoop(v, dense, 2, withSpeedup(1, 100)), bounds: fast},
		trial{name: "concurrency 4, 1 worker, short answers", spec: fourInFlight(v, "uniform:min=2,max=14", 1), bounds: oneWorker},
		trial{name: "same, no barrier", spec: fourInFlight(v, "uniform:min=2,max=14", 1), live: replay.Live{Pace: online.Pace{NoBarrier: true}}, bounds: lag, atLeast: true},
	)
}
