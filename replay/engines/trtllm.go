package engines

import (
	"fmt"

	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/trtllm"
	"github.com/replay-llm/replay/sim"
)

func (s *Stage) trtllmConfig() trtllm.Config {
	a := &s.Engine
	t := &a.TRTLLM
	return trtllm.Config{
		Rules: trtllm.RulesOf(a.Profile), Blocks: a.Blocks, BlockTokens: a.BlockTokens, MaxBatch: t.MaxBatch, MaxTokens: t.MaxTokens, MaxLength: a.MaxLength,
		Policy: trtllm.ParsePolicy(t.Policy), Chunking: t.ChunkingOf(), Overlap: !t.NoOverlap, Reuse: a.PrefixCaching, Partial: t.Partial, Copy: t.Copy,
		WaitIters: t.WaitIters, WaitRatio: t.WaitRatio, Host: trtllmHost(a), Role: s.Role, Transfer: a.Transfer(), Retention: t.RetentionOf(), ByPriority: t.Waiting == trtllm.WaitingPolicies()[1], EventBuffer: t.Events,
		KeepSent: s.keepsSent(), Clock: s.Clock, Tree: s.Tree, Capture: s.Capture,
	}
}

// trtllmHost returns the host memory behind the KV blocks.
func trtllmHost(a *engineargs.Args) trtllm.Host {
	return trtllm.Host{
		Blocks: a.HostBlocks(), BytesPerToken: a.KVBytesPerToken, ToHostGBPerSecond: a.G2.ToHostGBPerSec, ToGPUGBPerSecond: a.G2.ToGPUGBPerSec,
	}
}

// RoomFor returns the number of free blocks that a decode worker needs before the KV cache of q is sent to it.
// reserved is the number of them that is reserved during the transfer. seats is the maximum number of requests on the
// worker, 0 for no limit.
func (s *Stage) RoomFor(q *sim.Request) (free, reserved, seats int) {
	a := &s.Engine
	count := func(tokens int) int { return (tokens + a.BlockTokens - 1) / a.BlockTokens }
	free, reserved = count(q.InputTokens), count(q.InputTokens)
	if a.Engine != engineargs.TRTLLM {
		return free, reserved, 0
	}
	if trtllm.ParsePolicy(a.TRTLLM.Policy) != trtllm.MaxUtil {
		free = count(q.InputTokens + q.OutputTokens)
	}
	if trtllm.RulesOf(a.Profile).CountTransfers {
		reserved, seats = free, a.TRTLLM.MaxBatch
	}
	return free, reserved, seats
}

// trtllmCore returns a new TensorRT-LLM engine.
func (s *Stage) trtllmCore() (scheduler.Core, error) {
	c := s.trtllmConfig()
	if s.Steps {
		return nil, fmt.Errorf("planners of passes are not supported with TensorRT-LLM")
	}
	if n := s.Engine.DPSize; n > 1 {
		return trtllm.NewRanks(c, n, s.Engine.TRTLLM.Balance)
	}
	return trtllm.New(c)
}

// tokensOfPass is the argument that limits prompts of TensorRT-LLM engines without chunked prefill.
const tokensOfPass = "max_num_tokens"

// trtllmBounds returns the limits of a TensorRT-LLM engine for a prompt, and for a prompt with its answer.
func trtllmBounds(a *engineargs.Args) (prompt, whole bound) {
	pool := a.Blocks * a.BlockTokens
	whole = bound{tokens: pool, limit: pool, key: "num_gpu_blocks times block_size"}
	if a.TRTLLM.Policy == trtllm.Policies()[trtllm.MaxRequests] {
		whole = bound{}
	}
	if a.MaxLength > 0 {
		whole.tighten(bound{tokens: a.MaxLength, limit: a.MaxLength, key: "max_model_len"})
	}
	if prompt = whole; prompt.limit > 0 {
		prompt.tokens--
	}
	if n := a.TRTLLM.MaxTokens; !a.TRTLLM.Chunked && a.Role != scheduler.Decode {
		prompt.tighten(bound{tokens: n, limit: n, key: tokensOfPass})
	}
	return prompt, whole
}

// memoryShare is free_gpu_memory_fraction: the share of the memory left by weights and passes that a TensorRT-LLM
// server uses for KV blocks.
const memoryShare = 0.9

// trtllmShare returns the share of the memory of a GPU that a TensorRT-LLM server uses.
func trtllmShare(f *hardware.Fit) float64 {
	all := *f
	all.Utilization = 1
	b := all.Budget()
	return 1 - (1-memoryShare)*max(b.KV, 0)/b.Total
}

// NotCompared is the note on the rules of a TensorRT-LLM engine in a result.
const NotCompared = "by its published source, not compared with the engine"

// describeTRTLLM describes the rules of a TensorRT-LLM engine.
func describeTRTLLM(a *engineargs.Args) string {
	t := &a.TRTLLM
	text := "no chunked prefill"
	if t.Chunked {
		text = "chunked prefill " + t.Chunking
	}
	if a.DPSize > 1 {
		text += fmt.Sprintf(", over %d ranks in lockstep", a.DPSize)
	}
	return fmt.Sprintf("%s: TensorRT-LLM's rules %s; %s, %d requests at once, %d tokens a pass, %s",
		a.Profile, NotCompared, t.Policy, t.MaxBatch, t.MaxTokens, text)
}
