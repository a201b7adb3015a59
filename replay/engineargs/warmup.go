package engineargs

import "github.com/replay-llm/replay/schema"

// NoWarmup returns what an engine would have to be to stand still once, "" where it may.
func (a *Args) NoWarmup() string {
	switch {
	case a.Engine == SGLang:
		return "engine_type vllm with it"
	case a.Rules.Reference():
		return "vLLM's own rules with it: scheduler_profile vllm"
	case a.DPSize > 1:
		return "dp_size 1 with it"
	}
	return ""
}

// checkWarmup refuses a warm-up of engines that have none.
func (a *Args) checkWarmup(d *schema.Decl) {
	if want := a.NoWarmup(); want != "" && a.Warmup.Given() {
		d.FailText("warmup", want)
	}
}
