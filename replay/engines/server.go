package engines

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/sglang"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
)

// OnServer returns the settings that the server of an engine sets by default on the hardware of f, without given
// arguments. For vLLM, the settings are the newest rules, the limits and the block size of that release, and the
// groups of the model's layers. For SGLang, the settings are the size of chunks, and the window of the layers with a
// separate pool. gives reports whether an argument is given.
func OnServer(a *engineargs.Args, f *hardware.Fit, gives func(key string) bool) []engineargs.Setting {
	if a.Engine == engineargs.SGLang {
		return onSGLang(a, f, gives)
	}
	if a.Engine == engineargs.TRTLLM {
		return nil // TensorRT-LLM's defaults do not depend on the GPU
	}
	const profile = "scheduler_profile"
	if gives(profile) && a.Rules.Reference() {
		return nil
	}
	release := a.Profile
	if !gives(profile) {
		release = releases.Newest()
	}
	limits := serverLimits(a, release, f, gives)
	all := []engineargs.Setting{
		{Key: profile, Value: strconv.Quote(release)},
		{Key: vllm.TokensKey, Value: strconv.Itoa(limits.MaxBatchedTokens)}, {Key: vllm.SeqsKey, Value: strconv.Itoa(limits.MaxSeqs)},
		{Key: "block_size", Value: strconv.Itoa(limits.BlockTokens)},
	}
	all = slices.DeleteFunc(all, func(s engineargs.Setting) bool { return gives(s.Key) })
	return append(all, groupWindows(&limits, &f.Model, gives)...)
}

// onSGLang is OnServer for SGLang. Chunks are a multiple of the page size.
func onSGLang(a *engineargs.Args, f *hardware.Fit, gives func(key string) bool) []engineargs.Setting {
	const key, window = "sglang.chunked_prefill_size", "sglang.sliding_window_size"
	all := chainOf(a, f, gives)
	if n := f.Model.PoolWindow(); n > 0 && !gives(window) && !a.SGLang.NoWindowPool && a.Speculative == nil {
		all = append(all, engineargs.Setting{Key: window, Value: strconv.Itoa(n)})
	}
	if chunk := chunkOfSGLang(f.GPU.MemoryGiB) / a.BlockTokens * a.BlockTokens; !gives(key) && chunk > 0 {
		all = append(all, engineargs.Setting{Key: key, Value: strconv.Itoa(chunk)})
	}
	return all
}

// chainOf returns the default drafts of an SGLang server for a model of the family llama, if the number of steps is
// not given.
func chainOf(a *engineargs.Args, f *hardware.Fit, gives func(key string) bool) []engineargs.Setting {
	if a.Speculative == nil || a.SGLang.Drafts.Algorithm != scheduler.ByHead || f.Model.Family != "llama" || gives("sglang.speculative_num_steps") {
		return nil
	}
	return []engineargs.Setting{
		{Key: "sglang.speculative_num_steps", Value: "5"}, {Key: "sglang.speculative_eagle_topk", Value: "4"},
		{Key: "sglang.speculative_num_draft_tokens", Value: "8"},
	}
}

// ServerShare returns the share of a GPU's memory that the server of an engine uses for weights and KV cache by
// default. For vLLM, the result is f.Utilization.
func ServerShare(a *engineargs.Args, f *hardware.Fit) float64 {
	if a.Engine == engineargs.TRTLLM {
		return trtllmShare(f)
	}
	if a.Engine != engineargs.SGLang {
		return f.Utilization
	}
	s := sglangServer{MemoryGiB: f.GPU.MemoryGiB, TP: f.TP * f.DP, PP: f.PP, Latent: f.Model.Latent != nil, Chunk: a.SGLang.ChunkTokens}
	return s.share()
}

// Seats returns the default limit of running requests of an SGLang server with the given number of KV blocks. Seats
// returns nothing for other engines.
func Seats(a *engineargs.Args, f *hardware.Fit, blocks int) []engineargs.Setting {
	if a.Engine != engineargs.SGLang || a.Speculative != nil {
		return nil
	}
	seats := a.DPSize * seatsOfSGLang(blocks*a.BlockTokens, f.LongestSequence()) // for each rank
	return []engineargs.Setting{{Key: "sglang.max_running_requests", Value: strconv.Itoa(seats)}}
}

// serverLimits returns a with the limits of a pass and the block size of a server of a release, for limits that are
// not given.
func serverLimits(a *engineargs.Args, release string, f *hardware.Fit, gives func(key string) bool) engineargs.Args {
	own := *a
	tokens, seqs := releases.ServerLimits(release, f.GPU.Name, f.GPU.MemoryGiB)
	if !gives(vllm.SeqsKey) {
		own.MaxSeqs = seqs
	}
	if !gives(vllm.TokensKey) {
		own.MaxBatchedTokens = tokens
	}
	if !gives("block_size") {
		own.BlockTokens = releases.ServerBlock
	}
	own.CompleteLimits(f.LongestSequence(), gives)
	return own
}

// describeLimits describes the defaults of a server for the limits of an engine with vLLM's own rules. describeLimits
// returns "" without a known GPU, and if the defaults depend on the maximum sequence length.
func describeLimits(a *engineargs.Args) string {
	f, ok := a.PassTimes.Fit()
	if !ok || !a.ChunkedPrefill {
		return ""
	}
	tokens, seqs := releases.ServerLimits(a.Profile, f.GPU.Name, f.GPU.MemoryGiB)
	if tokens == a.MaxBatchedTokens && seqs == a.MaxSeqs {
		return ", its server's defaults on " + f.GPU.Name
	}
	return fmt.Sprintf("; its server's defaults on %s are %d and %d", f.GPU.Name, seqs, tokens)
}

// ReleaseOf returns the engine and release of the arguments, for example vllm-0.33.
func ReleaseOf(a *engineargs.Args) string {
	if a.Engine == engineargs.SGLang {
		return sglang.Profiles()[1]
	}
	return a.Profile
}

// NearestRules returns the value of scheduler_profile for a release of vLLM, for example 0.20.2.
func NearestRules(release string) string { return releases.RulesName(release) }

// VersionOf returns the release of vLLM for a value of scheduler_profile.
func VersionOf(rules string) string { return releases.Release(rules) }

// ServerFlags returns the defaults of a vLLM engine on a GPU by flag. rules is the value of scheduler_profile, "" for
// the default.
func ServerFlags(rules string, gpu *hardware.GPU) map[string]string {
	rules = cmp.Or(rules, releases.Newest())
	tokens, seqs := releases.ServerLimits(rules, gpu.Name, gpu.MemoryGiB)
	return map[string]string{"scheduler-profile": rules, "max-num-batched-tokens": strconv.Itoa(tokens), "max-num-seqs": strconv.Itoa(seqs)}
}
