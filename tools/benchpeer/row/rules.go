package row

import (
	"fmt"
	"strconv"
	"strings"
)

// RulesRow is a case in which this program is compared with itself. Most rows compare an engine's rules with the
// reference's rules. The two runs of a row have the same requests, workers, KV blocks, seats and tokens per pass.
// Only the rules and the pass times differ. Further rows compare a model with sliding windows with a model without,
// and two threads with one.
type RulesRow struct {
	Title         string
	Windows       string // arguments that select a model with sliding windows, which is compared with Llama 3.1 8B
	Threads       bool   // compares two threads with one, over the whole command
	SGLang        bool   // false means vLLM
	AgainstVLLM   bool   // compares SGLang's rules with vLLM's rules
	Source        Source
	Requests      int // number of synthetic requests, or of requests in the tiled trace; 0: the trace unchanged
	Input, Output int // tokens of a synthetic request
	InFlight      int // concurrency of a closed loop; 0: open loop
	Workers       int
	Router        string
	Speedup       int // factor on the arrival rate; 0: unchanged
	BlockTokens   int
	// Calibrated uses the pass times of a profile and a small worker that fits them. Otherwise the pass times come
	// from the data sheet of an H100.
	Calibrated bool

	Simulation float64 // maximum ratio of the simulation time to that of the compared run
}

// RulesMemory is the maximum ratio of peak memory between an engine's rules and the reference's rules.
const RulesMemory = 1.5

// RulesTable returns the rows of engine rules.
func RulesTable() []RulesRow {
	all := []RulesRow{
		{Title: "conversation, 8 workers, KV router, block 64", Workers: 8, Router: "kv", BlockTokens: 64},
		{Title: "conversation, 8 workers, KV router, block 16", Workers: 8, Router: "kv", BlockTokens: 16},
		{Title: "conversation, 8 workers, round robin, block 64", Workers: 8, Router: "round_robin", BlockTokens: 64},
		{Title: "conversation, 8 workers, round robin, block 16", Workers: 8, Router: "round_robin", BlockTokens: 16},
		{Title: "conversation, 1 worker, block 64", Workers: 1, BlockTokens: 64},
		{Title: "conversation, 1 worker, block 16", Workers: 1, BlockTokens: 16},
		{Title: "overload: conversation 4 times as fast, calibrated, 8 workers, KV router, block 64",
			Workers: 8, Router: "kv", BlockTokens: 64, Speedup: 4, Calibrated: true, Simulation: 4},
		{Title: "overload: conversation 4 times as fast, calibrated, 8 workers, KV router, block 16",
			Workers: 8, Router: "kv", BlockTokens: 16, Speedup: 4, Calibrated: true, Simulation: 4},
		{Title: "synthetic 131,072 of 1,024/128, 64 in flight, 1 worker, block 64",
			Source: Synthetic, Requests: 131_072, Input: 1024, Output: 128, InFlight: 64, Workers: 1, BlockTokens: 64},
		{Title: "synthetic 131,072 of 1,024/128, 64 in flight, 1 worker, block 16",
			Source: Synthetic, Requests: 131_072, Input: 1024, Output: 128, InFlight: 64, Workers: 1, BlockTokens: 16},
		{Title: "synthetic 16,384 of 1,024/128, 64 in flight, block 64", SGLang: true,
			Source: Synthetic, Requests: 16_384, Input: 1024, Output: 128, InFlight: 64, Workers: 1, BlockTokens: 64},
		{Title: "synthetic 4,096 of 1,024/2,048, 128 in flight, block 64", SGLang: true,
			Source: Synthetic, Requests: 4_096, Input: 1024, Output: 2_048, InFlight: 128, Workers: 1, BlockTokens: 64},
		{Title: "conversation, 8 workers, KV router, block 64, with vLLM's own rules", SGLang: true, AgainstVLLM: true,
			Workers: 8, Router: "kv", BlockTokens: 64, Simulation: 3},
		{Title: "conversation, 8 workers, KV router, block 16, with vLLM's own rules", SGLang: true, AgainstVLLM: true,
			Workers: 8, Router: "kv", BlockTokens: 16, Simulation: 3},
	}
	for _, x := range []struct{ name, args string }{
		{"gpt-oss-120b", "--model=gpt-oss-120b"}, {"Llama 4 Scout", "--model=llama-4-scout --tp=4"}, {"Gemma 3 27B", "--model=gemma-3-27b --tp=2"},
	} {
		all = append(all, RulesRow{Title: x.name + ", conversation, 8 workers, KV router", Windows: x.args, Workers: 8, Router: "kv", Simulation: 2})
	}
	all = append(all,
		RulesRow{Title: "conversation tiled to 1,000,000, 256 workers, round robin", Threads: true, Source: Conversation, Requests: 1_000_000,
			Workers: 256, Router: "round_robin", Simulation: 1 / 1.8},
		RulesRow{Title: "conversation, 8 workers, KV router", Threads: true, Workers: 8, Router: "kv", Simulation: 1 / 1.25})
	for i := range all {
		r := &all[i]
		r.Title = r.kind() + ": " + r.Title
		if r.Requests == 0 {
			r.Source = Conversation
		}
		if r.Simulation == 0 {
			r.Simulation = 2.5
		}
	}
	return all
}

// Args returns the command line without rules and pass times. trace is the file to replay.
func (r *RulesRow) Args(trace string) []string {
	tokens, seats, budget := 443_024, 1024, 8192 // values of vLLM on an H100 with Llama 3.1 8B
	switch {
	case r.Windows != "" || r.Threads:
		tokens, seats, budget = 0, 0, 0 // 0 means the default
	case r.Calibrated:
		tokens, seats, budget = 612_368, 128, 2048
	case r.SGLang:
		seats, budget = 0, 0
		if !r.AgainstVLLM {
			tokens = endlessBlocks * r.BlockTokens
		}
	}
	args := []string{"trace", trace, "--trace-block-size", strconv.Itoa(TraceBlock)}
	if r.Source == Synthetic {
		args = []string{"trace", "--input-tokens", strconv.Itoa(r.Input), "--output-tokens", strconv.Itoa(r.Output), "--request-count", strconv.Itoa(r.Requests)}
	}
	if r.InFlight > 0 {
		args[0] = "concurrency"
		args = append(args, "--max-in-flight", strconv.Itoa(r.InFlight))
	}
	for _, s := range []struct {
		flag  string
		value int
	}{
		{"workers", r.Workers}, {"speedup", r.Speedup}, {"block-size", r.BlockTokens}, {"num-gpu-blocks", tokens / max(1, r.BlockTokens)},
		{"max-num-seqs", seats}, {"max-num-batched-tokens", budget},
	} {
		if s.value > 0 {
			args = append(args, fmt.Sprintf("--%s=%d", s.flag, s.value))
		}
	}
	if r.Router != "" {
		args = append(args, "--router="+r.Router)
	}
	return args
}

// Own returns the arguments that select the engine's rules. profile is a file with the content of Profile.
func (r *RulesRow) Own(profile string) []string {
	switch {
	case r.Windows != "":
		return append([]string{"--gpu=h100"}, strings.Fields(r.Windows)...)
	case r.Threads:
		return []string{"--threads=2"}
	case r.AgainstVLLM:
		return []string{"--engine=sglang", "--gpu=h100", "--model=llama-3.1-8b"}
	case r.SGLang:
		return []string{"--engine=sglang"}
	case r.Calibrated:
		return []string{"--scheduler-profile=vllm", "--timing-profile=" + profile}
	}
	return []string{"--scheduler-profile=vllm", "--gpu=h100", "--model=llama-3.1-8b"}
}

// The arguments that select the rules for the comparison.
func (r *RulesRow) Others() []string {
	switch {
	case r.Windows != "":
		return []string{"--gpu=h100", "--model=llama-3.1-8b"}
	case r.Threads:
		return []string{"--threads=1"}
	case r.AgainstVLLM:
		return []string{"--scheduler-profile=vllm", "--gpu=h100", "--model=llama-3.1-8b", "--max-num-seqs=1024", "--max-num-batched-tokens=8192"}
	case r.SGLang:
		return []string{"--engine=sglang", "--compat=dynamo-1.2"}
	}
	return []string{"--scheduler-profile=reference"}
}

// kind returns the beginning of the title of such a row.
func (r *RulesRow) kind() string {
	switch {
	case r.Windows != "":
		return "windows"
	case r.Threads:
		return "threads"
	case r.SGLang:
		return "sglang rules"
	}
	return "vllm rules"
}

// Profile returns a timing profile in the format of replay calibrate, with round numbers.
func Profile() string {
	return `{"form": "roofline4-knee1", "version": 1, "source": "benchpeer", "parameters": {"weights_s": 0.014, "token_s": 0.00004,
"context_s": 7e-8, "mixed_context_s": 1.3e-7, "knee": 1, "graph_sizes_tokens": [1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256]}}`
}
