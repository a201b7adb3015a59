package main

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/tools/dice"
)

// trial is one random replay.
type trial struct {
	seed uint64
	tags dice.Tags

	trace     string // text of the trace file; "" with synthetic
	tokens    int    // of a hash id
	synthetic *loadgen.Synthetic
	inFlight  int // 0: by the times of the trace
	speedup   float64

	pools        []engines.Pool // one, or prefill and decode
	engines      []string       // their arguments
	router       policy.Name
	routerConfig router.Config
	routerText   string

	scale  []engines.ScaleEvent
	steps  int // by which a planner goes; 0: none does
	reject bool
	until  sim.Time
	compat bool
}

// allTags lists what a trial can be.
func allTags() []string {
	return []string{
		"vllm", "sglang", "alone", "pool", "kv", "disagg", "transfer", "flat", "sessions", "synthetic", "agentic",
		"trace", "concurrency", "queue", "scale", "steps", "reject", "until", "compat", "offload", "oversize", "starts",
	}
}

// String returns x as a person reads it.
func (x *trial) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%strace blocks of %d tokens, in flight %d, speedup %v, compat %v\n", x.trace, x.tokens, x.inFlight, x.speedup, x.compat)
	if x.synthetic != nil {
		fmt.Fprintf(&b, "synthetic %+v\n", *x.synthetic)
	}
	for i, p := range x.pools {
		fmt.Fprintf(&b, "%d workers: %s\n", p.Count, x.engines[i])
	}
	fmt.Fprintf(&b, "router %v %s\n", x.router, x.routerText)
	fmt.Fprintf(&b, "scale %v, steps %d, reject %v, until %v\n", x.scale, x.steps, x.reject, float64(x.until))
	return b.String()
}

// drawTrial makes the trial of a seed.
func drawTrial(seed uint64) *trial {
	rng := rand.New(rand.NewPCG(seed, 7))
	x := &trial{seed: seed, speedup: dice.Pick(rng, 1., 1, 0.5, 3)}
	x.tags.Add(dice.Pick(rng, "vllm", "sglang"))
	x.tags.Add(dice.Pick(rng, "alone", "pool", "kv", "disagg", "disagg"))
	x.tags.Add(dice.Pick(rng, "flat", "flat", "flat", "sessions", "synthetic", "agentic"))
	if x.compat = dice.Chance(rng, 3); x.compat {
		x.tags.Add("compat")
	}
	x.drawMode(rng)
	block, blocks := x.drawBlock(rng), 1+rng.IntN(50)
	x.drawRequests(rng, block, block*blocks)
	x.drawPools(rng, block, blocks)
	x.drawRouter(rng)
	x.drawEnd(rng)
	return x
}

func (x *trial) drawMode(rng *rand.Rand) {
	if x.tags.Has("agentic") || dice.Chance(rng, 3) {
		x.tags.Add("concurrency")
		x.inFlight = dice.Pick(rng, 1, 2, 5, 20)
		return
	}
	x.tags.Add("trace")
}

func (x *trial) drawBlock(rng *rand.Rand) int {
	if x.tags.Has("sglang") {
		return dice.Pick(rng, 1, 1, 2, 3, 16, 64)
	}
	return dice.Pick(rng, 2, 4, 8, 16, 64)
}

// drawEnd draws what ends a replay early, and what changes its pools.
func (x *trial) drawEnd(rng *rand.Rand) {
	if dice.Chance(rng, 2) {
		x.reject = true
		x.tags.Add("reject")
	}
	switch {
	case x.tags.Has("trace") && dice.Chance(rng, 6):
		x.steps = 1 + rng.IntN(8)
		x.tags.Add("steps")
		return
	case dice.Chance(rng, 3):
		x.tags.Add("scale")
		at := 0
		for range 1 + rng.IntN(5) {
			at += rng.IntN(100)
			e := engines.ScaleEvent{At: sim.Time(at), Workers: 1 + rng.IntN(4), Decode: engines.KeepSize}
			if len(x.pools) == 2 && dice.Chance(rng, 2) {
				e.Workers, e.Decode = dice.Pick(rng, e.Workers, engines.KeepSize), 1+rng.IntN(3)
			}
			x.scale = append(x.scale, e)
		}
	}
	if dice.Chance(rng, 5) {
		x.until = sim.Time(1 + rng.IntN(500))
		x.tags.Add("until")
	}
}

// drawRouter draws what the KV router weighs and when it holds requests back.
func (x *trial) drawRouter(rng *rand.Rand) {
	x.routerConfig = router.DefaultConfig()
	if !x.tags.Has("kv") && !(x.tags.Has("disagg") && dice.Chance(rng, 2)) {
		return
	}
	x.tags.Add("kv")
	x.router = policy.KV
	config := map[string]any{}
	if dice.Chance(rng, 2) {
		x.tags.Add("queue")
		config["router_queue_threshold"] = dice.Pick[any](rng, 0, 0.01, 0.5, 1, nil)
		config["router_queue_policy"] = dice.Pick(rng, "fcfs", "lcfs", "wspt")
	}
	if dice.Chance(rng, 3) {
		config["overlap_score_credit"] = dice.Pick(rng, 0, 0.5)
		config["router_temperature"] = dice.Pick(rng, 0, 0.7)
	}
	for _, key := range []string{"router_assume_kv_reuse", "router_track_active_blocks", "router_track_prefill_tokens"} {
		if dice.Chance(rng, 5) {
			config[key] = false
		}
	}
	x.routerText = dice.Object(config)
	var err error
	if x.routerConfig, err = router.ParseConfig([]byte(x.routerText)); err != nil {
		panic(fmt.Sprintf("seed %d draws the router %s: %v", x.seed, x.routerText, err))
	}
}

// drawPools draws the engines, of about the given number of blocks.
func (x *trial) drawPools(rng *rand.Rand, block, blocks int) {
	count := 1
	if !x.tags.Has("alone") {
		count = 2 + rng.IntN(3)
	}
	if !x.tags.Has("disagg") {
		x.addPool(rng, count, block, blocks, scheduler.Aggregated)
		return
	}
	x.addPool(rng, 1+rng.IntN(3), block, blocks, scheduler.Prefill)
	x.addPool(rng, 1+rng.IntN(3), block, min(50, blocks+rng.IntN(20)), scheduler.Decode)
}

func (x *trial) addPool(rng *rand.Rand, count, block, blocks int, role scheduler.Role) {
	text := dice.Object(x.drawEngine(rng, block, blocks, role))
	a, err := engineargs.Parse([]byte(text), engineargs.Options{Compat: x.compat})
	if err != nil {
		panic(fmt.Sprintf("seed %d draws the engine %s: %v", x.seed, text, err))
	}
	x.engines = append(x.engines, text)
	x.pools = append(x.pools, engines.Pool{Role: role, Engine: a, Count: count})
}
