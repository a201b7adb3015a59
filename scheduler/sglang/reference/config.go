package reference

import (
	"fmt"
	"math"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang"
)

// checkConfig returns an error about the first invalid argument in c.
func checkConfig(c sglang.Config) error {
	if math.IsNaN(c.Conservativeness) || math.IsInf(c.Conservativeness, 0) {
		return fmt.Errorf("schedule_conservativeness is %v, must be a finite number", c.Conservativeness)
	}
	if c.PageTokens > c.MaxPrefillTokens {
		return fmt.Errorf("max_prefill_tokens is %d, must be at least block_size %d", c.MaxPrefillTokens, c.PageTokens)
	}
	c.Conservativeness = max(0, c.Conservativeness) // unlike sglang.Check, the reference accepts negative values
	return sglang.Check(c)
}

// Fits returns the reason why a request can never run on an engine with the configuration c, even if it is idle, or
// nil if the request can run.
func Fits(c sglang.Config, input, output int) *scheduler.OversizeError {
	if c.Role == scheduler.Prefill {
		output = 1
	}
	pool := c.Pages * c.PageTokens
	need := input + min(output, c.ClipNewTokens)
	if need < pool || c.Conservativeness < 0 {
		return nil
	}
	return &scheduler.OversizeError{Input: input, Output: output, Blocks: need/c.PageTokens + 1,
		Reason: fmt.Sprintf("is admitted only with more than %d tokens, the engine has %d in %d pages of %d",
			need, pool, c.Pages, c.PageTokens)}
}

// floorTo returns n rounded down to a multiple of page.
func floorTo(n, page int) int { return n - n%page }

// ceilTo returns n rounded up to a multiple of page.
func ceilTo(n, page int) int { return floorTo(n+page-1, page) }
