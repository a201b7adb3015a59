package main

import (
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/generate"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/online"
	"github.com/replay-llm/replay/router/policy"
)

// trial is a workload and a cluster, replayed in both modes.
type trial struct {
	name    string
	spec    replay.Spec
	live    replay.Live
	bounds  bounds
	heavy   bool // more than half the workers' time is taken
	atLeast bool // the duration must be longer by at least bounds.duration
}

// bounds are how far a run in real time may be from its twin on the logical
// clock: a share of the twin's value, or so many ms where that is more.
type bounds struct {
	duration, ttft, ttftMS, itl, itlMS float64
	e2e, reuse                         float64
	countsAndDuration                  bool // nothing else is held to bounds
}

// The bounds of docs/rules/online.md "Bounds".
func roundRobinBounds(heavy bool) bounds {
	b := bounds{duration: 0.005, ttft: 0.04, ttftMS: 1.5, itl: 0.02, itlMS: 0.15, e2e: 0.04}
	if heavy {
		b.e2e = 0.02
	}
	return b
}

func kvRouterBounds(heavy bool) bounds {
	b := bounds{duration: 0.015, ttft: 0.10, ttftMS: 3, itl: 0.02, itlMS: 0.15, e2e: 0.12, reuse: 0.02}
	if heavy {
		b.e2e = 0.04
	}
	return b
}

func oneWorkerBounds() bounds {
	return bounds{duration: 0.01, ttft: 0.05, ttftMS: 2, itl: 0.02, itlMS: 0.15, e2e: 0.02, reuse: 0.02}
}

func severalWorkersBounds() bounds {
	return bounds{duration: 0.10, ttft: 0.40, itl: 0.02, itlMS: 0.15, e2e: 0.12, reuse: 0.2}
}

// Workloads.
func fortyRequests() loadgen.Synthetic {
	return loadgen.Synthetic{Requests: 40, Input: 512, Output: 16, Interval: 40, Turns: 1, SharedRatio: 0.5, Groups: 4}
}

// variedTrace returns a workload with answers of different lengths, so that requests do
// not end together.
func variedTrace(output string) *replay.Trace {
	return &replay.Trace{BlockTokens: 64, Made: generate.Config{
		Arrivals: "constant", Rate: 25, Requests: 60, Block: 64, Seed: 42,
		Classes: []generate.Class{{Name: "all", Weight: 1, Input: "512", Output: output, Prefix: "groups:count=4,tokens=256"}},
	}}
}

func denseRequests() loadgen.Synthetic {
	return loadgen.Synthetic{Requests: 200, Input: 512, Output: 16, Interval: 5, Turns: 1, SharedRatio: 0.5, Groups: 4}
}

func sixHundredRequests() loadgen.Synthetic {
	return loadgen.Synthetic{Requests: 600, Input: 1024, Output: 64, Interval: 8, Turns: 1, SharedRatio: 0.5, Groups: 8}
}

func sessionTurns() loadgen.Synthetic {
	return loadgen.Synthetic{Requests: 6, Input: 512, Output: 16, Interval: 60, Turns: 3, Delay: 100, SharedRatio: 0.5, Groups: 2}
}

// openLoop returns a workload at its own times.
func openLoop(engine engineargs.Engine, w loadgen.Synthetic, workers int) replay.Spec {
	a := engineargs.Default()
	a.Engine, a.BlockTokens = engine, 64
	return replay.Spec{
		Synthetic: w, Mode: loadgen.Trace, Speedup: 1, Topology: replay.Topology{Pools: replay.OnePool(a, workers)},
	}
}

// closedLoop returns a workload with so many requests in flight.
func closedLoop(engine engineargs.Engine, w loadgen.Synthetic, workers, inFlight int) replay.Spec {
	s := openLoop(engine, w, workers)
	s.Mode, s.MaxInFlight = loadgen.Concurrency, inFlight
	return s
}

// fourInFlight keeps four requests of varied lengths in flight.
func fourInFlight(engine engineargs.Engine, output string, workers int) replay.Spec {
	s := closedLoop(engine, loadgen.Synthetic{}, workers, 4)
	s.Trace = variedTrace(output)
	return s
}

func withKVRouter(s replay.Spec) replay.Spec {
	s.Router = policy.KV
	return s
}

func withSpeedup(s replay.Spec, arrivals, engine float64) replay.Spec {
	s.Speedup = arrivals
	s.Entry().Engine.Speedup = engine
	return s
}

// listTrials returns the rows of the table.
func listTrials() []trial {
	var all []trial
	for _, e := range []engineargs.Engine{engineargs.VLLM, engineargs.SGLang} {
		all = append(all, listPerEngine(e)...)
	}
	const v = engineargs.VLLM
	lag := bounds{duration: 0.08}
	fast := roundRobinBounds(false)
	fast.countsAndDuration = true
	return append(all,
		trial{name: "40 req/40 ms, 1 worker", spec: openLoop(v, fortyRequests(), 1), bounds: roundRobinBounds(false)},
		trial{name: "same, arrival speed-up 4", spec: withSpeedup(openLoop(v, fortyRequests(), 2), 4, 1), bounds: roundRobinBounds(true), heavy: true},
		trial{name: "200 req/5 ms, 2 workers", spec: openLoop(v, denseRequests(), 2), bounds: roundRobinBounds(true), heavy: true},
		trial{name: "engine speed-up 100, 200 req/5 ms", spec: withSpeedup(openLoop(v, denseRequests(), 2), 1, 100), bounds: fast},
		trial{name: "concurrency 4, 1 worker, short answers", spec: fourInFlight(v, "uniform:min=2,max=14", 1), bounds: oneWorkerBounds()},
		trial{name: "same, no barrier", spec: fourInFlight(v, "uniform:min=2,max=14", 1), live: replay.Live{Pace: online.Pace{NoBarrier: true}}, bounds: lag, atLeast: true},
	)
}

func listPerEngine(e engineargs.Engine) []trial {
	name := func(text string) string { return e.String() + ": " + text }
	return []trial{
		{name: name("40 req/40 ms, 2 workers"), spec: openLoop(e, fortyRequests(), 2), bounds: roundRobinBounds(false)},
		{name: name("same, kv"), spec: withKVRouter(openLoop(e, fortyRequests(), 2)), bounds: kvRouterBounds(false)},
		{name: name("600 req/8 ms, 4 workers"), spec: openLoop(e, sixHundredRequests(), 4), bounds: roundRobinBounds(true), heavy: true},
		{name: name("same, kv"), spec: withKVRouter(openLoop(e, sixHundredRequests(), 4)), bounds: kvRouterBounds(true), heavy: true},
		{name: name("6 sessions of 3 turns, 2 workers"), spec: openLoop(e, sessionTurns(), 2), bounds: roundRobinBounds(false)},
		{name: name("same, concurrency 2"), spec: closedLoop(e, sessionTurns(), 2, 2), bounds: severalWorkersBounds()},
		{name: name("concurrency 4, 1 worker"), spec: fourInFlight(e, "uniform:min=4,max=28", 1), bounds: oneWorkerBounds()},
		{name: name("concurrency 4, 2 workers"), spec: fourInFlight(e, "uniform:min=4,max=28", 2), bounds: severalWorkersBounds()},
	}
}
