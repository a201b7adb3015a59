package engineargs

import "github.com/replay-llm/replay/schema"

// NoWarmup returns the setting that a warm-up requires, "" if it is supported.
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

// checkWarmup refuses a warm-up of engines that have none.
func (a *Args) checkWarmup(d *schema.Decl) {
	if other := a.NoWarmup(); other != "" && a.Warmup.Given() {
		d.Require("warmup", other)
	}
}
