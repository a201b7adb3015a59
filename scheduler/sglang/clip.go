package sglang

import (
	"fmt"

	"github.com/replay-llm/replay/scheduler"
)

// shortBy is by how many tokens a prompt that SGLang takes is at least shorter than the pool.
const shortBy = 7

// LongestPrompt returns the most tokens of a prompt that an engine accepts by its longest sequence,
// where its frontend keeps some for drafts.
func LongestPrompt(context, reserved int) int { return max(0, context-max(shortBy, reserved+1)) }

// LongestSequence returns the most tokens that a prompt and its answer have on such an engine.
func LongestSequence(context int) int { return max(0, context-2) }

// Fits returns the reason why a request of input and output tokens never runs on an engine
// made with c, however idle it is; nil when it does, if with a shorter output.
func Fits(c Config, input, output int) *scheduler.OversizeError {
	pool := c.Pages * c.PageTokens
	wrong := &scheduler.OversizeError{Input: input, Output: output}
	// A page more than the prompt has is asked for even if there is no output.
	least := input + max(shortBy, c.PageTokens+1)
	if c.IgnoreEOS && !c.PrefixCaching { // as fitExactly asks
		least = max(input+shortBy, ceilTo(input, c.PageTokens)+c.PageTokens)
	}
	switch {
	case input+shortBy > pool:
		wrong.Reason = fmt.Sprintf("SGLang aborts it: of %d tokens in %d pages a prompt may have %d", pool, c.Pages, max(0, pool-shortBy))
	case least > pool:
		wrong.Reason = fmt.Sprintf("SGLang never admits it, nor the requests after it: it requires %d tokens free, and there are %d in %d pages", least, pool, c.Pages)
	default:
		return fitsWindows(&c, input, c.clipOutput(input, output))
	}
	wrong.Blocks = ceilTo(least, c.PageTokens) / c.PageTokens
	return wrong
}

// clipOutput returns the tokens that a request of input tokens may gain where it asks for output. SGLang shortens
// outputs that the pool could not hold, at worst to 0 tokens, which gives one token.
func (c *Config) clipOutput(input, output int) int {
	if c.Role == scheduler.Prefill {
		output = 1
	}
	return max(0, min(max(1, output), c.Pages*c.PageTokens-ceilTo(input, c.PageTokens)-c.PageTokens-1))
}
