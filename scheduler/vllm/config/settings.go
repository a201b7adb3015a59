package config

import (
	"github.com/replay-llm/replay/scheduler/vllm/rules"
	"github.com/replay-llm/replay/scheduler/vllm/windows"
	"github.com/replay-llm/replay/sim"
)

// Names of the limits of a pass: of the arguments, in the logs of servers and in errors.
const (
	SeqsKey   = "max_num_seqs"
	TokensKey = "max_num_batched_tokens"
)

// Settings are the arguments of an engine that vLLM alone has, as its server takes them.
type Settings struct {
	MaxSeqs          int  // requests running at once; default 256; Unlimited lifts the limit
	MaxBatchedTokens int  // tokens computed per pass; default 8192; Unlimited lifts the limit
	ChunkedPrefill   bool // cut prompts that exceed the rest of MaxBatchedTokens; default true
	Preemption       Preemption
	ActiveSeqs       int            // max_num_active_seqs, a further limit besides MaxSeqs; 0: none
	PrefillInterval  int            // passes from one that computes prompts to the next, while requests decode; up to 1: any; not for the reference's rules
	Scheduling       Policy         // ByPriority is not for the reference's rules; default FirstCome
	Warmup           Warmup         // of a worker that has never served; not for the reference's rules; none by default
	Rules            rules.Rules    // of the scheduler; default those of the reference
	Uncertain        string         // what is not known of Rules, as those of a release that was not compared; "": nothing
	Profile          string         // the set that Rules are of, single ones apart, as vllm-0.33; "": the reference's
	Windows          windows.Groups // groups of layers some of which attend to the last tokens alone; not for the reference's rules, nor with Offload; none by default
	NoHybrid         bool           // disable_hybrid_kv_cache_manager: layers are one group, and keep all tokens
}

// Complete returns s with the lower of the two limits of requests at once.
func (s Settings) Complete() Settings {
	if s.ActiveSeqs > 0 && (s.MaxSeqs == Unlimited || s.ActiveSeqs < s.MaxSeqs) {
		s.MaxSeqs = s.ActiveSeqs
	}
	return s
}

// Warmup is how long a fresh engine stands still once, as while it compiles a kernel that no
// pass has needed before: its first pass in which that many requests gain a token takes longer.
type Warmup struct {
	Requests int      // that gain a token in the pass
	Time     sim.Time // by which it takes longer; 0: the engine is not fresh
	Until    sim.Time // a pass that begins later is as any other; 0: none is
}

// Given reports whether the engine is fresh.
func (w Warmup) Given() bool { return w.Time > 0 }
