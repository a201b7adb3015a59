package main

import (
	"math/rand/v2"

	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/tools/draw"
)

// drawTRTLLM replaces vLLM engines by TensorRT-LLM engines in some trials.
func (x *trial) drawTRTLLM(d *draw.Drawer) {
	g := rand.New(rand.NewPCG(d.Seed, 11))
	if x.spec.Compat || x.steps > 0 || !d.Tags.Has("vllm") || g.IntN(2) == 0 {
		return
	}
	d.Tags.Add("trtllm")
	ranks := 1
	if g.IntN(5) == 0 {
		ranks = 2
		d.Tags.Add("ranks")
	}
	for i := range x.spec.Pools {
		p := &x.spec.Pools[i]
		x.squeezeTRTLLM(g, p)
		p.Engine.DPSize = ranks
		if ranks > 1 {
			b := &p.Engine.TRTLLM.Balance
			b.On, b.TimeoutIters, b.WaitIters = g.IntN(2) == 0, g.IntN(5), g.IntN(5)
		}
	}
	if x.spec.Topology.ReservesRoom() && g.IntN(3) > 0 {
		x.spec.PD = &replay.PD{DecodeChosen: engines.BeforeTransfer, DecodeAdmission: g.IntN(3) > 0, HoldPrefill: g.IntN(3) > 0}
	}
}

// squeezeTRTLLM sets an engine to TensorRT-LLM with very little memory.
func (x *trial) squeezeTRTLLM(g *rand.Rand, p *replay.Pool) {
	pick := func(list ...int) int { return list[g.IntN(len(list))] }
	a := &p.Engine
	policies := []string{"GUARANTEED_NO_EVICT", "MAX_UTILIZATION", "STATIC_BATCH"}
	a.Engine, a.Profile, a.Speculative = engineargs.TRTLLM, []string{"trtllm-1.2", "trtllm-1.3"}[g.IntN(2)], nil
	a.G2.Blocks = 0
	a.PrefixCaching = g.IntN(5) > 0
	s := &a.TRTLLM
	s.MaxBatch, s.MaxTokens = pick(1, 2, 5, 100), max(a.BlockTokens, pick(8, 40, 300, 3000))
	s.Chunked, s.Chunking = g.IntN(3) > 0, []string{"FIRST_COME_FIRST_SERVED", "EQUAL_PROGRESS"}[g.IntN(2)]
	s.Policy, s.NoOverlap = policies[g.IntN(len(policies))], g.IntN(3) == 0
	s.Partial, s.Copy = g.IntN(3) > 0, g.IntN(3) > 0
	if g.IntN(3) == 0 {
		s.WaitIters, s.WaitRatio = g.IntN(4), float64(g.IntN(5))/4
	}
	s.Waiting, s.Ranges, s.Answer, s.AnswerMs = []string{"fcfs", "priority"}[g.IntN(2)], "", 35, g.IntN(20)
	if a.PrefixCaching && g.IntN(3) == 0 {
		s.Ranges, s.Answer, s.Events = []string{"0-40:80:9,40-:20", "10-:5", ""}[g.IntN(3)], g.IntN(101), g.IntN(3)
	}
	switch {
	case !a.PrefixCaching && g.IntN(2) == 0:
		s.Policy = "MAX_REQUESTS"
	case a.PrefixCaching && g.IntN(2) == 0:
		a.KVBytesPerToken = pick(100, 100_000, 10_000_000)
		s.HostBytes = a.KVBytesPerToken * a.BlockTokens * pick(1, 3, 40)
		a.G2.ToHostGBPerSec, a.G2.ToGPUGBPerSec = float64(pick(0, 1, 14)), float64(pick(0, 1, 14))
	}
	if p.Role == scheduler.Prefill && g.IntN(2) == 0 {
		a.KVBytesPerToken, a.TransferGBPerSecond = max(a.KVBytesPerToken, 1000), 0.001
	}
	a.MaxSeqs, a.MaxBatchedTokens = s.MaxBatch, s.MaxTokens
}
