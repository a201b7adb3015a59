package main

import (
	"math/rand/v2"

	"github.com/replay-llm/replay/tools/dice"
)

// schedule is what a planner does with a replay: it looks at the cluster now
// and then, changes the size of its pools, and takes the report in the end.
//
// It is also what the reference is given, as JSON.
type schedule struct {
	Trace        string   `json:"trace"` // path of the file
	TraceBlock   int      `json:"trace_block_size"`
	Speedup      float64  `json:"arrival_speedup_ratio"`
	Engines      []string `json:"engines"` // arguments of one pool, or of prefill and decode
	Workers      []int    `json:"workers"` // of each
	RouterMode   string   `json:"router_mode"`
	RouterConfig string   `json:"router_config"` // "": the defaults
	Calls        []call   `json:"calls"`
	Out          string   `json:"out"` // path for the results
}

// call is one thing a planner does.
type call struct {
	Do      string  `json:"do"`      // advance, scale or drain
	Until   float64 `json:"until"`   // of advance, in ms
	Prefill int     `json:"prefill"` // of scale, workers; without a prefill pool it has no meaning
	Decode  int     `json:"decode"`
}

// atEnd is when every replay has ended.
const atEnd = 1e12

// drawScaling draws a workload with a planner.
func drawScaling(seed uint64) *workload {
	rng := rand.New(rand.NewPCG(seed, 8))
	w := &workload{seed: seed, plan: &schedule{Speedup: dice.Pick(rng, 1., 1, 0.5, 4)}}
	w.tags.Add("scaling")
	w.tags.Add("trace")
	w.tags.Add(dice.Pick(rng, "vllm", "vllm", "sglang"))
	w.tags.Add(dice.Pick(rng, "pool", "pool", "disagg", "disagg"))
	if dice.Chance(rng, 4) {
		w.tags.Add("kv")
		w.ties = true
	}
	w.tags.Add(dice.Pick(rng, "flat", "flat", "sessions"))
	block := w.drawBlock(rng)
	s := w.drawShape(rng, block)
	if w.tags.Has("kv") { // the numbers of workers are seen here, so that ties are many
		s.requests = min(s.requests, 3)
	}
	w.plan.TraceBlock = s.tokens
	var largest int
	if w.tags.Has("sessions") {
		largest = w.drawSessions(rng, s)
	} else {
		largest = w.drawFlat(rng, s)
	}
	w.drawCluster(rng, block, largest)
	w.drawCalls(rng, s.gap*float64(s.requests))
	return w
}

// drawCluster draws engines, workers and the router of a schedule.
func (w *workload) drawCluster(rng *rand.Rand, block, largest int) {
	p := w.plan
	p.RouterMode = "round_robin"
	if w.tags.Has("kv") {
		p.RouterMode = "kv_router"
		w.drawRouter(rng)
		if len(w.args) > 0 {
			p.RouterConfig = w.args[1]
			w.args = nil
		}
	}
	roles := []string{""}
	if w.tags.Has("disagg") {
		roles = []string{"prefill", "decode"}
	}
	for _, role := range roles {
		p.Engines = append(p.Engines, w.drawEngine(rng, block, largest, role))
		p.Workers = append(p.Workers, 1+rng.IntN(w.maxWorkers()))
	}
}

// drawCalls draws what the planner does, mostly while requests arrive.
func (w *workload) drawCalls(rng *rand.Rand, span float64) {
	p := w.plan
	span = max(span, 300)
	until := 0.0
	for range 1 + rng.IntN(dice.Pick(rng, 4, 12, 30)) {
		switch rng.IntN(4) {
		case 0, 1:
			if !dice.Chance(rng, 6) {
				until += rng.Float64() * span / 5
			}
			p.Calls = append(p.Calls, call{Do: "advance", Until: until})
		case 2:
			p.Calls = append(p.Calls, call{Do: "scale", Prefill: 1 + rng.IntN(w.maxWorkers()), Decode: 1 + rng.IntN(w.maxWorkers())})
		case 3:
			p.Calls = append(p.Calls, call{Do: "drain"})
		}
	}
	if !dice.Chance(rng, 4) {
		p.Calls = append(p.Calls, call{Do: "advance", Until: atEnd}, call{Do: "drain"})
	}
}

// maxWorkers returns how many workers a pool has at most.
func (w *workload) maxWorkers() int {
	if w.tags.Has("kv") {
		return 2
	}
	return 4
}
