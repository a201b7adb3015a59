package engines

import (
	"fmt"
	"strconv"

	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/sglang"
	"github.com/replay-llm/replay/scheduler/vllm"
)

// OnServer returns a as a server on the hardware of f has it by its own rules, and these
// settings, for where nothing is said: with vLLM the newest rules, that release's limits and
// block size, and the groups of the model's layers; with SGLang the size of chunks, and the window of the layers that have a pool of their own. gives reports whether an argument is said.
func OnServer(a engineargs.Args, f *hardware.Fit, gives func(key string) bool) (engineargs.Args, []engineargs.Setting) {
	var all []engineargs.Setting
	switch profile := gives("scheduler_profile"); {
	case a.Engine == engineargs.SGLang:
		return onSGLang(a, f, gives)
	case profile && a.Rules.Reference():
		return a, nil
	case !profile:
		a.Profile = vllm.Newest()
		all = append(all, engineargs.Setting{Key: "scheduler_profile", Value: strconv.Quote(a.Profile)})
	}
	tokens, seqs := serverLimits(&a, f, gives)
	for _, s := range []struct {
		key   string
		to    *int
		value int
	}{{vllm.TokensKey, &a.MaxBatchedTokens, tokens}, {vllm.SeqsKey, &a.MaxSeqs, seqs}, {"block_size", &a.BlockTokens, vllm.ServerBlock}} {
		if !gives(s.key) {
			*s.to = s.value
			all = append(all, engineargs.Setting{Key: s.key, Value: strconv.Itoa(s.value)})
		}
	}
	return a, append(all, groupWindows(&a, &f.Model, gives)...)
}

// onSGLang is OnServer for SGLang. Chunks are whole pages.
func onSGLang(a engineargs.Args, f *hardware.Fit, gives func(key string) bool) (engineargs.Args, []engineargs.Setting) {
	const key, window = "sglang.chunked_prefill_size", "sglang.sliding_window_size"
	all := chainOf(&a, f, gives)
	if n := f.Model.PoolWindow(); n > 0 && !gives(window) && !a.SGLang.NoWindowPool && a.Speculative == nil {
		a.SGLang.Window = n
		all = append(all, engineargs.Setting{Key: window, Value: strconv.Itoa(n)})
	}
	chunk := sglang.ServerChunk(f.GPU.MemoryGiB) / a.BlockTokens * a.BlockTokens
	if gives(key) || chunk == 0 {
		return a, all
	}
	a.SGLang.ChunkTokens = chunk
	return a, append(all, engineargs.Setting{Key: key, Value: strconv.Itoa(chunk)})
}

// chainOf returns the drafts that an SGLang server takes for a model of the family llama, where no
// steps are said.
func chainOf(a *engineargs.Args, f *hardware.Fit, gives func(key string) bool) []engineargs.Setting {
	d := &a.SGLang.Drafts
	if a.Speculative == nil || d.Algorithm != scheduler.ByHead || f.Model.Family != "llama" || gives("sglang.speculative_num_steps") {
		return nil
	}
	d.Steps, d.TopK, d.Tokens = 5, 4, 8
	return []engineargs.Setting{
		{Key: "sglang.speculative_num_steps", Value: "5"}, {Key: "sglang.speculative_eagle_topk", Value: "4"},
		{Key: "sglang.speculative_num_draft_tokens", Value: "8"},
	}
}

// ServerShare returns the share of a GPU's memory that an SGLang server with these arguments takes
// for weights and KV cache, where nothing is said; that of f for other engines.
func ServerShare(a *engineargs.Args, f *hardware.Fit) float64 {
	if a.Engine != engineargs.SGLang {
		return f.Utilization
	}
	s := sglang.Server{MemoryGiB: f.GPU.MemoryGiB, TP: f.TP * f.DP, PP: f.PP, Latent: f.Model.Latent != nil, Chunk: a.SGLang.ChunkTokens}
	return s.Share()
}

// Seats returns how many requests an SGLang server with so many KV blocks runs at once, where
// nothing is said; nothing for other engines.
func Seats(a *engineargs.Args, f *hardware.Fit, blocks int) []engineargs.Setting {
	if a.Engine != engineargs.SGLang || a.Speculative != nil {
		return nil
	}
	seats := a.DPSize * sglang.ServerSeats(blocks*a.BlockTokens, f.LongestSequence()) // of each rank
	return []engineargs.Setting{{Key: "sglang.max_running_requests", Value: strconv.Itoa(seats)}}
}

// serverLimits returns how many tokens a pass and how many requests at once a server has:
// those of a that are said, and for the others what it takes beside them.
func serverLimits(a *engineargs.Args, f *hardware.Fit, gives func(key string) bool) (tokens, seqs int) {
	own := *a
	tokens, seqs = vllm.ServerLimits(a.Profile, f.GPU.Name, f.GPU.MemoryGiB)
	if !gives(vllm.SeqsKey) {
		own.MaxSeqs = seqs
	}
	if !gives(vllm.TokensKey) {
		own.MaxBatchedTokens = tokens
	}
	own.CompleteLimits(f.LongestSequence(), gives)
	return own.MaxBatchedTokens, own.MaxSeqs
}

// describeLimits returns whose limits an engine has that follows vLLM's own rules on a GPU of
// the tables, "" on none and where they depend on its longest sequence.
func describeLimits(a *engineargs.Args) string {
	f, ok := fitOf(a)
	if !ok || !a.ChunkedPrefill {
		return ""
	}
	tokens, seqs := vllm.ServerLimits(a.Profile, f.GPU.Name, f.GPU.MemoryGiB)
	if tokens == a.MaxBatchedTokens && seqs == a.MaxSeqs {
		return ", its server's defaults on " + f.GPU.Name
	}
	return fmt.Sprintf("; its server's defaults on %s are %d and %d", f.GPU.Name, seqs, tokens)
}

// ReleaseOf returns the engine and release that these arguments stand for, as vllm-0.33.
func ReleaseOf(a *engineargs.Args) string {
	if a.Engine == engineargs.SGLang {
		return sglang.Profiles()[1]
	}
	return a.Profile
}
