package offline

import (
	"github.com/replay-llm/replay/prompt"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/actual"
	"github.com/replay-llm/replay/sim"
)

// stage is a pool's place in the topology, with what its workers are made of.
type stage struct {
	pool    *Pool
	tree    *prompt.Tree
	clock   timing.Clock
	capture scheduler.Capture
	role    scheduler.Role
	router  router.Stage
	compat  bool
	steps   bool
	reject  bool // requests that do not fit are turned away
}

// newStage prepares a pool: it reads the timing profile, once for all workers.
func newStage(cfg *Config, p *Pool, role scheduler.Role, tree *prompt.Tree) (*stage, error) {
	s := &stage{pool: p, tree: tree, role: role, compat: cfg.Compat, steps: cfg.steps, reject: cfg.Reject}
	s.clock = timing.Clock{Model: timing.Polynomial{}, Speedup: p.Engine.Speedup, DecodeSpeedup: p.Engine.DecodeSpeedup}
	if path := p.Engine.ProfilePath; path != "" {
		model, err := timing.Load(path)
		if err != nil {
			return nil, err
		}
		s.clock.Model = model
	}
	s.router = map[scheduler.Role]router.Stage{
		scheduler.Aggregated: router.Aggregated, scheduler.Prefill: router.Prefill, scheduler.Decode: router.Decode,
	}[role]
	if cfg.Router == router.ModeKV && role != scheduler.Decode {
		s.capture = s.captured()
	}
	return s, nil
}

// captured is what a KV router needs to see of the engine's cache. Residency of
// prompt nodes is enough where engines name blocks as the router does and never
// cache one without its parent. Without a prefix cache vLLM announces blocks
// under names that nobody finds again, and the reference's SGLang announces
// tokens, which can pass for blocks of two.
func (s *stage) captured() scheduler.Capture {
	a := &s.pool.Engine
	switch {
	case a.Engine == engineargs.VLLM && a.PrefixCaching && s.offload().Blocks == 0 && a.Rules.Reference():
		return scheduler.CaptureResidency
	case a.Engine == engineargs.VLLM:
		return scheduler.CaptureEvents
	case !s.compat:
		return scheduler.CaptureResidency
	case a.BlockTokens == 2:
		return scheduler.CaptureEvents
	}
	return scheduler.CaptureNone
}

// core is a new engine for the given worker.
func (s *stage) core(id sim.WorkerID) (scheduler.Core, error) {
	if s.pool.Engine.Engine == engineargs.SGLang {
		return sglang.New(s.sglang(id))
	}
	if !s.pool.Engine.Rules.Reference() {
		return actual.New(s.vllm())
	}
	return vllm.New(s.vllm()), nil
}

func (s *stage) vllm() vllm.Config {
	a := &s.pool.Engine
	preemption := vllm.LIFO
	if a.Preemption == engineargs.FIFO {
		preemption = vllm.FIFO
	}
	return vllm.Config{
		Blocks: a.Blocks, BlockTokens: a.BlockTokens,
		MaxSeqs: a.MaxSeqs, MaxBatchedTokens: a.MaxBatchedTokens,
		PrefixCaching: a.PrefixCaching, ChunkedPrefill: a.ChunkedPrefill,
		Preemption: preemption, Role: s.role, Transfer: a.Transfer(),
		Clock: s.clock, Tree: s.tree, Capture: s.capture,
		Planner: s.steps, Offload: s.offload(), Rules: a.Rules,
	}
}

// offload is the host memory behind an engine's KV blocks. The reference reads
// its settings and has none.
func (s *stage) offload() vllm.Offload {
	a := &s.pool.Engine
	if s.compat || a.G2.Blocks == 0 || a.KVBytesPerToken == 0 {
		return vllm.Offload{}
	}
	return vllm.Offload{
		Blocks: a.G2.Blocks, BytesPerToken: a.KVBytesPerToken, BatchBlocks: a.G2.BatchBlocks,
		ToHostGBPerSecond: a.G2.ToHostGBPerSec, ToGPUGBPerSecond: a.G2.ToGPUGBPerSec,
	}
}

func (s *stage) sglang(id sim.WorkerID) sglang.Config {
	a := &s.pool.Engine
	policy := sglang.FIFO
	if a.SGLang.LPM() {
		policy = sglang.LPM
	}
	rules := sglang.DefaultRules()
	if s.compat {
		rules = sglang.CompatRules()
	}
	return sglang.Config{
		Pages: a.Blocks, PageTokens: a.BlockTokens, Policy: policy,
		MaxPrefillTokens: a.SGLang.MaxPrefillTokens, ChunkTokens: a.SGLang.ChunkTokens,
		ClipNewTokens: a.SGLang.ClipNewTokens, Conservativeness: a.SGLang.Conservativeness,
		PrefixCaching: a.PrefixCaching, Role: s.role, Transfer: a.Transfer(),
		Clock: s.clock, Tree: s.tree, Capture: s.capture, Rules: rules, Planner: s.steps,
		Rank: int32(id),
		Tokens: func(r *sim.Request, dst []uint64) []uint64 {
			return s.tree.AppendTokens(&r.Prompt, r.InputTokens, dst)
		},
	}
}

// newRouter is the router of the pool.
func (s *stage) newRouter(cfg *Config) (router.Router, error) {
	if cfg.Router == router.ModeRoundRobin {
		return router.NewRoundRobin(s.pool.Count), nil
	}
	rc := cfg.RouterConfig
	if name := s.pool.Engine.QueuePolicy; name != "" {
		policy, err := router.ParsePolicy(name)
		if err != nil {
			return nil, err
		}
		rc = rc.WithPolicy(policy)
	}
	return router.NewKV(router.Options{
		Config: rc, Stage: s.router, Workers: s.pool.Count,
		MaxBatchedTokens: s.pool.Engine.MaxBatchedTokens, Requests: len(cfg.Workload.Turns),
		Tree: s.tree, Seed: cfg.Seed, Exact: s.capture == scheduler.CaptureEvents,
	})
}

// fits says whether a request can run on the pool's idle engine.
func (s *stage) fits(input, output int) *scheduler.OversizeError {
	if s.role == scheduler.Prefill {
		output = 1
	}
	if s.pool.Engine.Engine == engineargs.SGLang {
		return sglang.Fits(s.sglang(0), input, output)
	}
	c := s.vllm()
	if err := c.Fits(input, output); err != nil || !s.reject {
		return err
	}
	return c.TakesWhole(input, output) // a server does not count on its cache
}
