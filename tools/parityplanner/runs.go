package main

import (
	"path/filepath"

	"github.com/replay-llm/replay/internal/optional"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/replay/autoscale/planner"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// source is a trace and the speed-up of its arrivals.
type source struct {
	name    string
	data    string // path in the optional data; "": use file
	file    string
	speedup float64
}

// goal is a named scaling target.
type goal struct {
	name string
	set  func(*planner.Config)
}

// run is a replay with Dynamo's planner for a pool.
type run struct {
	source
	goal
	pool     int // index of the planned pool; bothPools: both together
	disagged bool
}

// bothPools means that the prefill and the decode pool are planned together.
const bothPools = 2

// joint reports whether both pools are planned together.
func (r *run) joint() bool { return r.pool == bothPools }

func (r *run) name() string {
	role := "agg"
	if r.disagged {
		role = []string{"prefill", "decode", "disagg"}[r.pool]
	}
	return r.source.name + "-" + r.goal.name + "-" + role
}

func (r *run) findTrace() (string, error) {
	if r.data == "" {
		return filepath.Join(optional.Root(), r.file), nil
	}
	return optional.FindData(r.data)
}

// listSources returns the traces.
func listSources() []source {
	return []source{
		{name: "chat-hour", file: "testdata/traces/chat-hour.jsonl", speedup: 8},
		{name: "conversation", data: "traces/mooncake_conversation.jsonl", speedup: 2},
		{name: "azure-conv", data: "traces/azure_2023_conv.csv", speedup: 4},
	}
}

// listGoals returns the targets. The TTFT and ITL target is listed by passes, by traffic, and by both.
func listGoals() []goal {
	sla := func(load, traffic bool) func(*planner.Config) {
		return func(c *planner.Config) {
			c.Target, c.Load, c.Throughput, c.ThroughputInterval = planner.SLA, load, traffic, 60
			c.TTFT, c.ITL, c.MaxGPUBudget = 400, 25, 24
		}
	}
	return []goal{
		{"throughput", func(*planner.Config) {}},
		{"latency", func(c *planner.Config) { c.Target, c.MaxGPUBudget = planner.Latency, 16 }},
		{"load", func(c *planner.Config) {
			up, down, kvUp, kvDown := 20000, 2000, 60.0, 25.0
			c.Target, c.QueueUp, c.QueueDown, c.KVUp, c.KVDown = planner.Load, &up, &down, &kvUp, &kvDown
			c.MinEndpoint, c.MaxGPUBudget, c.LoadInterval = 2, 12, 10
		}},
		{"sla-load", sla(true, false)},
		{"sla-throughput", sla(false, true)},
		{"sla-both", sla(true, true)},
	}
}

// listRuns returns every trace with every target. Each pair of trace and target has runs for an aggregated pool, for
// each of two pools, and for both pools together.
func listRuns() []run {
	var all []run
	for _, s := range listSources() {
		for _, g := range listGoals() {
			all = append(all, run{s, g, 0, false}, run{s, g, 0, true}, run{s, g, 1, true}, run{s, g, bothPools, true})
		}
	}
	return all
}

// spec returns the replay of a trace.
func (r *run) spec(trace string) *replay.Spec {
	engine := engineargs.Default()
	engine.Blocks, engine.BlockTokens, engine.MaxBatchedTokens, engine.MaxSeqs, engine.MaxLength = 4096, 64, 8192, 256, 200_000
	config := autoscale.Default(autoscale.DynamoPlanner)
	r.set(config.Planner)
	law := func(ms sim.Time) autoscale.Law { return autoscale.Law{Mean: ms} }
	config.Startup = autoscale.Ladder{Image: law(10_000), Weights: law(15_000), WarmUp: law(5_000)}
	spec := &replay.Spec{
		Trace: &replay.Trace{Path: trace, Detect: true}, Mode: loadgen.Trace, Speedup: r.speedup,
		Topology: replay.Topology{Pools: replay.OnePool(engine, 2)},
	}
	spec.Router, spec.Autoscale = policy.KV, &config
	if !r.disagged {
		return spec
	}
	pools := [2]replay.Pool{}
	for i, role := range []scheduler.Role{scheduler.Prefill, scheduler.Decode} {
		e := engine
		e.Role = role
		n := 4
		if i == r.pool || r.joint() {
			n = 2
		}
		pools[i] = replay.OnePool(e, n)[0]
	}
	spec.Pools = replay.TwoPools(pools[0], pools[1])
	if r.joint() {
		spec.AutoscaleDecode = &config
	} else if r.pool == 1 {
		spec.Autoscale, spec.AutoscaleDecode = nil, &config
	}
	return spec
}
