package engineargs

import "github.com/replay-llm/replay/schema"

// NoWarmup returns the setting that is required for a warm-up, "" if a warm-up is supported.
func (a *Args) NoWarmup() string {
	switch {
	case a.Engine == SGLang:
		return "engine_type vllm"
	case a.Rules.Reference():
		return "vLLM's own rules: scheduler_profile vllm"
	case a.DPSize > 1:
		return "dp_size 1"
	}
	return ""
}

// checkWarmup rejects a warm-up for engines that do not support it.
func (a *Args) checkWarmup(d *schema.Decl) {
	if other := a.NoWarmup(); other != "" && a.Warmup.Given() {
		d.Require("warmup", other)
	}
}
