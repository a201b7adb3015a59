package engineargs

import (
	"strconv"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/scheduler/sglang"
)

// readEviction reads what an SGLang engine evicts first from its cache, with that policy's parameters.
func (r *reader) readEviction(s *SGLangArgs) {
	const key = "radix_eviction_policy_config"
	name := r.choice("radix_eviction_policy", sglang.Evictions()...)
	e := sglang.NewEviction(name)
	m := r.openObject(key)
	if m != nil {
		m.prefix = r.prefix + m.prefix
		switch name {
		case "slru":
			m.size("protected_threshold", &e.ProtectedHits)
		case "tlru":
			m.size("threshold", &e.Threshold)
			m.size("next_prompt_estimate", &e.NextPrompt)
		default:
			r.fail(key, excerpt.CutLine(r.values[key]), "radix_eviction_policy slru or tlru with it")
			return
		}
		m.refuseOthers()
		if r.err = m.err; r.err != nil {
			return
		}
	}
	if name == "tlru" && e.Threshold <= e.NextPrompt {
		r.fail("radix_eviction_policy", `"tlru"`, key+" with it, of a threshold above its next_prompt_estimate, or all is kept alike")
	}
	if name != "" && name != "lru" {
		s.Eviction = e
		switch {
		case s.HiCache.On:
			r.fail("radix_eviction_policy", strconv.Quote(name), "no enable_hierarchical_cache with it")
		case s.Window > 0 && !s.NoWindowPool:
			r.fail("radix_eviction_policy", strconv.Quote(name), `no sliding_window_size with it, or "disable_hybrid_swa_memory": true`)
		}
	}
}
