// Package engines has the topology of a cluster. The package makes the simulated engines and the router of each pool,
// for a driver with a logical or a real clock.
//
// Read topology.go (the cluster) and mix.go (pools with several kinds of workers), then stage.go, sizes.go and
// custom.go.
package engines

import (
	"cmp"
	"slices"

	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/custom"
	"github.com/replay-llm/replay/scheduler/sglang"
	sglangreference "github.com/replay-llm/replay/scheduler/sglang/reference"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/ranks"
	"github.com/replay-llm/replay/scheduler/vllm/reference"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Use is the way in which a harness uses a topology.
type Use struct {
	Tree     *prompt.Tree        // of prompts, in blocks of the engines' size
	Requests int                 // number of requests; 0: unknown
	Steps    bool                // a planner reads every pass
	Events   bool                // cores report their KV events, for any router
	Classes  []router.ClassTerms // of the workload, by sim.Request.Class; nil if it has none
	// FitUncached rejects requests that fit only with a cached prefix.
	FitUncached bool
	// Custom, if not nil, makes the engine of each worker. Custom replaces the engine of the worker's arguments.
	Custom func(custom.Options) (custom.Engine, error)
}

// Stage is a pool in its topology, with the means to make its workers.
type Stage struct {
	*Topology
	*Pool
	Use
	Clock   timing.Clock // duration of passes
	Capture scheduler.Capture
	index   int           // of the pool
	given   router.Policy // of a *policy.Given; nil: another choice
	// kinds are the kinds of a mix, each as a separate pool; nil if all workers are equal.
	kinds []*Stage
}

// NewStages prepares the pools of t, starting with the entry pool.
func NewStages(t *Topology, use Use) ([]*Stage, error) {
	var all []*Stage
	for i := range t.Pools {
		s, err := newStage(t, use, i)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, t.checkSignals(t.listSignalsOf(all))
}

// newStage prepares a pool. All cores of a mix report their caches in the same form, the most detailed form that a
// kind requires.
func newStage(t *Topology, use Use, index int) (*Stage, error) {
	p := &t.Pools[index]
	s, err := newKind(t, p, use, index)
	if err != nil {
		return nil, err
	}
	for i := range p.Mix {
		k, err := newKind(t, p.Mix[i].pool(), use, index)
		if err != nil {
			return nil, err
		}
		s.kinds = append(s.kinds, k)
		s.Capture = max(s.Capture, k.Capture)
	}
	if err := s.RenewPolicy(); err != nil {
		return nil, err
	}
	for _, k := range s.kinds {
		k.Capture = s.Capture
	}
	return s, nil
}

// newKind prepares equal workers. newKind reads the timing profile once for all workers.
func newKind(t *Topology, p *Pool, use Use, index int) (*Stage, error) {
	model, err := p.Engine.PassTimes.Load()
	if err != nil {
		return nil, err
	}
	s := &Stage{Topology: t, Pool: p, Use: use, index: index}
	s.Clock = timing.Clock{Model: model, Speedup: p.Engine.Speedup, DecodeSpeedup: p.Engine.DecodeSpeedup}
	if p.Engine.Speculative != nil {
		s.Clock.DraftMs, s.Clock.DraftShare, _ = draftTime(&p.Engine)
	}
	switch {
	case use.Events:
		s.Capture = scheduler.CaptureEvents
	case t.FollowsCaches() && p.Role != scheduler.Decode, s.seesCaches():
		s.Capture = s.routerCapture()
	}
	return s, nil
}

// Joined reports whether the engines of all pools and their routers work with a joined tree. Blocks have no names in
// such a tree. Joined requires vLLM's cores, under any rules, without captured KV events.
func Joined(t *Topology, use Use) bool {
	return t.allKinds(use, func(s *Stage) bool {
		a := &s.Engine
		return a.Engine == engineargs.VLLM && s.offloadConfig().Blocks == 0 && !s.pulls() && !s.hashesAhead()
	})
}

// KeepsPrompts returns the setting that is not supported with a tree that forgets prompts, "" if there is none. With
// such a setting, a core cannot list the prompt nodes of all its cached blocks (scheduler.Remembers).
func KeepsPrompts(t *Topology, use Use) (what string) {
	if t.allKinds(use, func(s *Stage) bool { what = s.keepsPrompts(); return what == "" }) {
		return ""
	}
	return cmp.Or(what, "a router that follows events of KV blocks, or a file of them")
}

// keepsPrompts is KeepsPrompts for the engines of a pool.
func (s *Stage) keepsPrompts() string {
	a := &s.Engine
	switch {
	case a.DPSize > 1:
		return "data-parallel ranks (dp_size)"
	case s.offloadConfig().Blocks > 0:
		return "host memory behind vLLM's KV cache"
	case a.Engine == engineargs.SGLang && s.Compat:
		return "SGLang's engines by the reference's rules (--compat)"
	case a.Engine == engineargs.SGLang && a.SGLang.HiCache.Storage.Backend != "":
		return "storage behind SGLang's KV cache (hicache_storage_backend)"
	}
	return ""
}

// allKinds reports whether each kind of workers passes a test, and no KV events are captured.
func (t *Topology) allKinds(use Use, passes func(*Stage) bool) bool {
	for i := range t.Pools {
		for _, k := range t.Pools[i].Kinds() {
			s := &Stage{Topology: t, Pool: k.pool(), Use: use}
			follows := t.FollowsCaches() || s.seesCaches() || policy.Is[*policy.Given](t.Router)
			if !passes(s) || follows && s.routerCapture() == scheduler.CaptureEvents {
				return false
			}
		}
	}
	return !use.Events
}

// routerCapture returns the form in which a KV router receives the engine's cache. Residency of prompt nodes is
// sufficient if engines name blocks as the router does and never cache a block without its parent. With windows in
// all layers, engines do cache such blocks. Each rank in lockstep has a separate cache, and only events distinguish
// ranks. Without a prefix cache, vLLM announces blocks under names that no request finds again. The reference's
// SGLang announces single tokens, which can match blocks of two.
func (s *Stage) routerCapture() scheduler.Capture {
	a := &s.Engine
	switch {
	case s.Custom != nil && a.PrefixCaching:
		return scheduler.CaptureResidency
	case s.Custom != nil:
		return scheduler.CaptureNone
	case a.Engine == engineargs.VLLM && a.PrefixCaching && !s.hashesAhead() && (s.offloadConfig().Blocks == 0 || !a.Rules.Reference()) && (!a.Windows.Given() || a.Windows.Full > 0) && (a.Rules.Reference() || a.DPSize == 1):
		return scheduler.CaptureResidency
	case a.Engine == engineargs.VLLM, a.Engine == engineargs.TRTLLM && a.DPSize > 1:
		return scheduler.CaptureEvents
	case a.Engine == engineargs.TRTLLM && !a.PrefixCaching:
		return scheduler.CaptureNone
	case !s.Compat && a.DPSize == 1:
		return scheduler.CaptureResidency
	case !s.Compat, a.BlockTokens == 2:
		return scheduler.CaptureEvents
	}
	return scheduler.CaptureNone
}

// hashesAhead reports whether the name of a block of a vLLM engine includes the token after the block.
func (s *Stage) hashesAhead() bool {
	c := s.vllmConfig()
	return s.Engine.Engine == engineargs.VLLM && c.HashesAhead()
}

// Core returns a new core for the given worker.
func (s *Stage) Core(id sim.WorkerID) (scheduler.Core, error) { return s.at(id).core(id) }

// LiveCore returns a new core for the given worker in real time. The core's events have rank 0.
func (s *Stage) LiveCore(id sim.WorkerID) (scheduler.Core, error) { return s.at(id).core(0) }

// core returns a new core.
func (s *Stage) core(id sim.WorkerID) (scheduler.Core, error) {
	if s.Custom != nil {
		return s.customCore(id)
	}
	if s.Engine.Engine == engineargs.SGLang {
		switch c := s.sglangConfig(id); {
		case s.Compat:
			return sglangreference.New(c)
		case s.Engine.DPSize > 1:
			return sglang.NewRanks(c, s.Engine.DPSize, sglang.ParseBalance(s.Engine.SGLang.LoadBalance, s.Role))
		}
		return sglang.New(s.sglangConfig(id))
	}
	if s.Engine.Engine == engineargs.TRTLLM {
		return s.trtllmCore()
	}
	if s.Engine.DPSize > 1 {
		return ranks.New(s.vllmConfig(), s.Engine.DPSize, releases.RanksOf(s.Engine.Profile))
	}
	if !s.Engine.Rules.Reference() {
		return vllm.New(s.vllmConfig())
	}
	return reference.New(s.vllmConfig()), nil
}

func (s *Stage) vllmConfig() vllm.Config {
	a := &s.Engine
	return vllm.Config{
		Settings: a.Settings.Complete(), Blocks: a.Blocks, BlockTokens: a.BlockTokens, MaxLength: a.MaxLength, PrefixCaching: a.PrefixCaching,
		Speculation: withSeed(a.Speculative, s.Seed), Role: s.Role, Transfer: a.Transfer(), KeepSent: s.keepsSent(), Pull: s.pulls(), Push: s.pulls() && s.PD.Push,
		Clock: s.Clock, Tree: s.Tree, Capture: s.Capture, Planner: s.Steps, Offload: s.offloadConfig(),
		RankedHost: releases.RanksHost(a.Profile), SimpleHost: a.G2.Connector == engineargs.SimpleCPU,
	}
}

// offloadConfig returns the host memory behind an engine's KV blocks. The reference ignores the settings of host
// memory and simulates none.
func (s *Stage) offloadConfig() blocks.Offload {
	a := &s.Engine
	if s.Compat || a.G2.Blocks == 0 || a.KVBytesPerToken == 0 {
		return blocks.Offload{}
	}
	return blocks.Offload{
		Blocks: a.G2.Blocks, BytesPerToken: a.KVBytesPerToken, BatchBlocks: a.G2.BatchBlocks,
		ToHostGBPerSecond: a.G2.ToHostGBPerSec, ToGPUGBPerSecond: a.G2.ToGPUGBPerSec,
	}
}

// hostMemory returns the host memory behind the token pool of an SGLang engine. Loaded tokens arrive in one part per
// layer of the model.
func (s *Stage) hostMemory() sglang.HiCache {
	a := &s.Engine
	h := sglang.HiCache{Pages: a.HostPages()}
	if s.Compat || h.Pages == 0 {
		return sglang.HiCache{}
	}
	h.Policy, h.BytesPerToken, h.Layers = sglang.ParseWritePolicy(a.SGLang.HiCache.Policy), a.KVBytesPerToken, a.SGLang.HiCache.Layers
	h.ToHostGBPerSecond, h.ToGPUGBPerSecond = a.G2.ToHostGBPerSec, a.G2.ToGPUGBPerSec
	if x := &a.SGLang.HiCache.Storage; x.Backend != "" {
		h.Storage = sglang.Storage{
			On: true, Policy: sglang.ParsePrefetchPolicy(x.Policy), Threshold: x.Threshold,
			Timeout: x.Timeout, TimeoutPerKiToken: x.TimeoutPerKiToken,
			ToStorageGBPerSecond: a.G2.ToStorageGBPerSec, ToHostGBPerSecond: a.G2.FromStorageGBPerSec,
		}
	}
	if f, ok := a.PassTimes.Fit(); ok && h.Layers == 0 {
		h.Layers = f.Model.Layers
	}
	if h.Layers == 0 {
		h.Layers = sglang.AssumedLayers
	}
	return h
}

func (s *Stage) sglangConfig(id sim.WorkerID) sglang.Config {
	a := &s.Engine
	policy := sglang.ParsePolicy(a.SGLang.Policy)
	if s.Compat && policy != sglang.LPM {
		policy = sglang.FIFO
	}
	return sglang.Config{
		Settings: a.SGLang.Complete(), Pages: a.Blocks, PageTokens: a.BlockTokens, Policy: policy, Seed: s.Seed,
		Overlap: !a.SGLang.NoOverlap, PrefixCaching: a.PrefixCaching, WindowPages: sglang.WindowPages(a.Blocks*a.BlockTokens, a.BlockTokens, a.SGLang.PoolShare()),
		Role: s.Role, Transfer: a.Transfer(), Clock: s.Clock, Tree: s.Tree, Capture: s.Capture, Planner: s.Steps,
		Speculation: draftsOf(a, s.Seed), HiCache: s.hostMemory(), Rank: int32(id),
		Tokens: func(r *sim.Request, dst []uint64) []uint64 {
			return s.Tree.AppendTokens(&r.Prompt, r.InputTokens, dst)
		},
	}
}

// policyOptions returns the options of a policy of the pool's router.
func (s *Stage) policyOptions() (policy.Options, error) {
	config := router.DefaultConfig()
	if c, ok := s.Router.(*policy.Configured); ok {
		config = c.Config
	}
	if name := s.Engine.QueuePolicy; name != "" {
		order, err := router.ParseQueueOrder(name)
		if err != nil {
			return policy.Options{}, err
		}
		config.QueuePolicy = order // the engine's setting wins
	}
	o := policy.Options{
		Config: config, Role: s.Role, Prefills: s.Prefills(), BlockTokens: s.Tree.BlockTokens(),
		MaxBatchedTokens: s.Engine.MaxBatchedTokens, Seed: s.Seed,
		Tree: s.Tree, CacheBlocks: s.Engine.Blocks, Classes: s.Classes,
	}
	if len(s.Mix) > 0 {
		o.MaxBatchedTokens = s.Mix[s.laterKind()].Engine.MaxBatchedTokens // of workers added later
	}
	for i := range s.Mix {
		o.WorkerBatches = append(o.WorkerBatches, slices.Repeat([]int{s.Mix[i].Engine.MaxBatchedTokens}, s.Mix[i].Count)...)
	}
	if policy.Is[*policy.Text](s.Router) || s.Admission != nil || policy.Is[*policy.Given](s.Router) {
		o.Workers = s.traits()
	}
	return o, nil
}

// NewPolicy returns a new policy for the pool's router, or the policy of a *policy.Given that is already made.
func (s *Stage) NewPolicy() (router.Policy, error) {
	if s.given != nil {
		return s.given, nil
	}
	o, err := s.policyOptions()
	if err != nil {
		return nil, err
	}
	return s.Choice().New(o)
}

// newAdmission returns the admission in front of the pool's router, nil if there is none.
func (s *Stage) newAdmission() (router.Admission, error) {
	if own, ok := s.given.(router.Admission); ok {
		return own, nil
	}
	if s.Admission == nil || s.index > 0 {
		return nil, nil
	}
	o, err := s.policyOptions()
	if err != nil {
		return nil, err
	}
	return policy.NewAdmission(*s.Admission, o)
}

// NewRouter returns a new router of the pool.
func (s *Stage) NewRouter() (router.Router, error) {
	p, admission, err := s.NewChoosers()
	if err != nil {
		return nil, err
	}
	later, err := s.laterNeeds()
	if err != nil {
		return nil, err
	}
	return router.New(router.Options{
		Policy: p, Admission: admission, Later: later, Workers: s.Count, Tree: s.Tree,
		Exact: s.Capture == scheduler.CaptureEvents,
		Lossy: s.Client != nil, Patient: s.MayFail() || s.Autoscales() || s.Client != nil, Classes: s.Classes, Signals: s.ageSignals(), Keep: s.keptLoads(),
	}), nil
}

// Offloads reports whether the engines have host memory behind their KV blocks.
func (s *Stage) Offloads() bool {
	if len(s.kinds) > 0 {
		return slices.ContainsFunc(s.kinds, (*Stage).Offloads)
	}
	if s.Engine.Engine == engineargs.SGLang {
		return s.hostMemory().Pages > 0
	}
	if s.Engine.Engine == engineargs.TRTLLM {
		return s.Engine.HostBlocks() > 0
	}
	return s.offloadConfig().Blocks > 0
}
