package planner

import (
	"fmt"
	"math"

	"github.com/replay-llm/replay/scheduler"
)

// Engine describes a worker. A value of 0 is unknown.
type Engine struct {
	GPUs             int `json:"gpus"`
	MaxBatchedTokens int `json:"max_num_batched_tokens"`
	MaxSeqs          int `json:"max_num_seqs"`
	ContextLength    int `json:"max_model_len"`
	KVTokens         int `json:"kv_tokens"` // size of the KV cache of a worker
}

// View is the state of a pool at a tick.
type View struct {
	Ready    int                  // active workers
	Expected int                  // including starting workers
	Passes   []scheduler.Snapshot // the latest pass of each ready worker that has run one; empty if it has no requests
}

// Traffic is the requests and routing decisions since the start.
type Traffic struct {
	Requests int     `json:"requests"` // arrived requests
	Finished int     `json:"finished"` // finished requests, and their tokens:
	Input    int     `json:"input_tokens"`
	Output   int     `json:"output_tokens"`
	Placed   int     `json:"placed"` // routing decisions, and the sum over them of
	Reuse    float64 `json:"reuse"`  // the cached share of the prompt on the worker
}

// AddPlaced counts a routing decision. blocks is the length of the prompt, and cached the number of its cached blocks
// on the worker.
func (t *Traffic) AddPlaced(blocks, cached int32) {
	if blocks > 0 {
		t.Placed++
		t.Reuse += float64(cached) / float64(blocks)
	}
}

// AddFinished counts a request that has finished.
func (t *Traffic) AddFinished(input, output int) {
	t.Finished, t.Input, t.Output = t.Finished+1, t.Input+input, t.Output+output
}

// Planner plans one pool.
type Planner struct {
	c      *Config
	role   scheduler.Role
	engine Engine
	least  int
	budget budget
	model  *model // for the target sla

	ready, expected int
	floor           int // minimum of workers required by the traffic

	load, traffic float64 // time of the latest decision by load and by traffic, in seconds
	seen          Traffic // traffic at the latest decision by traffic
	foresight     foresight
	hitRate       float64 // latest cached share of prompts

	why string
}

// New returns a planner of a pool.
func New(c *Config, role scheduler.Role, e Engine) (*Planner, error) {
	if err := c.checkMode(role); err != nil {
		return nil, err
	}
	if err := c.checkThresholds(role == scheduler.Prefill); err != nil {
		return nil, err
	}
	if gpus := map[scheduler.Role]*int{scheduler.Prefill: c.PrefillEngineGPU, scheduler.Decode: c.DecodeEngineGPU, scheduler.Aggregated: c.DecodeEngineGPU}[role]; gpus != nil {
		e.GPUs = *gpus
	}
	e.GPUs = max(e.GPUs, 1)
	p := &Planner{c: c, role: role, engine: e, least: c.least(role == scheduler.Prefill), budget: budget{c.MinGPUBudget, c.MaxGPUBudget}, floor: 1}
	switch {
	case role == scheduler.Prefill && (c.Target == Throughput || c.Target == Latency) && e.ContextLength == 0:
		return nil, fmt.Errorf("optimization_target: %s of prefill workers requires --max-model-len, of which its thresholds are shares", c.Target)
	case c.MaxGPUBudget >= 0 && p.least*e.GPUs > c.MaxGPUBudget:
		return nil, fmt.Errorf("max_gpu_budget is %d, must be at least %d, which the fewest workers have (%d of %d GPUs)", c.MaxGPUBudget, p.least*e.GPUs, p.least, e.GPUs)
	}
	if c.Target == SLA {
		p.model = newModel(c, role, e)
	}
	return p, nil
}

// Why returns the reason of the latest decision.
func (p *Planner) Why() string { return p.why }

// Least returns the minimum number of workers.
func (p *Planner) Least() int { return p.least }

// Tick returns the number of workers; ok is false if there is no decision.
func (p *Planner) Tick(seconds float64, v *View, t Traffic) (n int, ok bool) {
	p.why = "no change"
	if seconds <= 0 {
		return 0, false
	}
	p.ready, p.expected = v.Ready, v.Expected
	loads := isDue(p.load, seconds, p.c.LoadInterval)
	measures := p.c.throughput() && isDue(p.traffic, seconds, p.c.ThroughputInterval)
	if loads {
		p.load = seconds
		if p.model != nil {
			p.model.observe(v.Passes)
		}
	}
	switch {
	case measures:
		n, ok = p.scaleByTraffic(seconds, t)
	case loads && p.model != nil && !p.c.throughput():
		_ = p.takeTraffic(seconds, t)
	}
	if loads && p.c.load() {
		n, ok = p.scaleByLoad(v.Passes)
	}
	return p.boundWanted(n, ok)
}

// isDue reports whether an interval has passed since an instant.
func isDue(last, now float64, interval int) bool { return now-last >= float64(interval)-1e-9 }

// boundWanted returns the required number within the bounds, and false if it equals the ready workers.
func (p *Planner) boundWanted(n int, ok bool) (int, bool) {
	steady := p.ready == p.expected
	if !ok {
		n = p.ready
	}
	if steady && p.ready < p.least {
		n = max(n, p.least)
	}
	outside := steady && !p.budget.has(p.ready*p.engine.GPUs, p.budget.slack(p.engine.GPUs))
	if n == p.ready && !outside {
		return 0, false
	}
	if to := p.budget.clamp(max(n, p.least), p.engine.GPUs, p.least); to != n {
		n, p.why = to, fmt.Sprintf("%s; GPU budget allows %d", p.why, to)
	}
	return n, n != p.ready
}

// guard returns the number of workers within the GPU budget. guard does not reverse a change.
func (p *Planner) guard(n int) int {
	to, held := p.budget.guard(p.ready, n, p.engine.GPUs, p.least)
	if held && to != n {
		p.why += fmt.Sprintf("; GPU budget allows %d", to)
	}
	return to
}

// workersFor returns a load divided by the capacity of a worker, rounded up.
func workersFor(load, perWorker float64) int {
	return int(min(math.Ceil(load/perWorker), math.MaxInt32))
}
