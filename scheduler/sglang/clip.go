package sglang

import (
	"fmt"

	"github.com/replay-llm/replay/scheduler"
)

// shortBy is the minimum difference between the size of the pool and the length of a prompt that SGLang accepts, in
// tokens.
const shortBy = 7

// LongestPrompt returns the maximum prompt length that an engine accepts with the given longest sequence, in tokens.
// The frontend keeps reserved tokens for drafts.
func LongestPrompt(context, reserved int) int { return max(0, context-max(shortBy, reserved+1)) }

// LongestSequence returns the maximum total length of a prompt and its answer on such an engine, in tokens.
func LongestSequence(context int) int { return max(0, context-2) }

// Fits returns the reason why a request can never run on an engine with the configuration c, even if it is idle. Fits
// returns nil if the request can run, possibly with a shorter output.
func Fits(c Config, input, output int) *scheduler.OversizeError {
	pool := c.Pages * c.PageTokens
	wrong := &scheduler.OversizeError{Input: input, Output: output}
	// SGLang requires a page more than the prompt has, even without output.
	least := input + max(shortBy, c.PageTokens+1)
	if c.IgnoreEOS && !c.PrefixCaching { // the condition of fitExactly
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

// clipOutput returns the maximum number of output tokens of a request. SGLang shortens outputs that do not fit in the
// pool, at worst to 0 tokens; then the request gains one token.
func (c *Config) clipOutput(input, output int) int {
	if c.Role == scheduler.Prefill {
		output = 1
	}
	return max(0, min(max(1, output), c.Pages*c.PageTokens-ceilTo(input, c.PageTokens)-c.PageTokens-1))
}
