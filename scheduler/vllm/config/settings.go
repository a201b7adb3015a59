package config

import (
	"github.com/replay-llm/replay/scheduler/vllm/rules"
	"github.com/replay-llm/replay/scheduler/vllm/windows"
	"github.com/replay-llm/replay/sim"
)

// Names of the limits of a pass, for arguments, logs of servers and errors.
const (
	SeqsKey   = "max_num_seqs"
	TokensKey = "max_num_batched_tokens"
)

// Settings are the engine arguments that only vLLM has, with the meanings of its server.
type Settings struct {
	MaxSeqs          int  // maximum running requests; default 256; Unlimited switches the limit off
	MaxBatchedTokens int  // maximum tokens computed per pass; default 8192; Unlimited switches the limit off
	ChunkedPrefill   bool // split prompts that exceed the remaining MaxBatchedTokens; default true
	Preemption       Preemption
	ActiveSeqs       int            // max_num_active_seqs, an additional limit of running requests; 0: none
	PrefillInterval  int            // minimum distance between passes that compute prompts while requests decode; 0 or 1: no limit; not supported by the reference's rules
	Scheduling       Policy         // ByPriority is not supported by the reference's rules; default FirstCome
	Warmup           Warmup         // delay of a fresh worker; not supported by the reference's rules; default none
	Rules            rules.Rules    // rules of the scheduler; default the reference's
	Uncertain        string         // text about the uncertainty of Rules, for example if the release was not compared; "": none
	Profile          string         // name of the set that Rules are based on, for example vllm-0.33; "": the reference's
	Windows          windows.Groups // groups of layers with and without windows; not supported by the reference's rules or with Offload; default no windows
	NoHybrid         bool           // disable_hybrid_kv_cache_manager: all layers are one group and keep all tokens
}

// Complete returns s with MaxSeqs set to the lower of the two limits of running requests.
func (s Settings) Complete() Settings {
	if s.ActiveSeqs > 0 && (s.MaxSeqs == Unlimited || s.ActiveSeqs < s.MaxSeqs) {
		s.MaxSeqs = s.ActiveSeqs
	}
	return s
}

// Warmup is a one-time delay of a fresh engine, for example for compiling a kernel. The first pass in which at least
// Requests requests get a token takes longer.
type Warmup struct {
	Requests int      // minimum number of requests that get a token in the pass
	Time     sim.Time // extra duration of the pass; 0: the engine is not fresh
	Until    sim.Time // passes that begin later are not delayed; 0: no pass is
}

// Given reports whether the engine is fresh.
func (w Warmup) Given() bool { return w.Time > 0 }
