package sglang

import (
	"fmt"
	"math"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Policy is the order in which waiting requests are tried.
type Policy uint8

const (
	FIFO Policy = iota // as they arrived
	LPM                // longest cached prefix first
)

// Config is what one simulated SGLang engine is made with. It has no defaults:
// every field counts as it is.
type Config struct {
	Pages            int     // pages of the token pool, > 0
	PageTokens       int     // tokens per page, > 0
	Policy           Policy  // order of the queue
	MaxPrefillTokens int     // prompt tokens admitted per pass, > 0
	ChunkTokens      int     // tokens after which a prompt is cut, and the chunk budget of a pass, >= PageTokens
	ClipNewTokens    int     // output tokens of a request that memory is reserved for, at most; 0 reserves for none
	Conservativeness float64 // scales the share of the reserved tokens that is believed in
	PrefixCaching    bool    // reuse cached pages across requests; read under Rules.CacheOff
	Role             scheduler.Role
	Transfer         scheduler.Transfer // read on prefill workers only
	Clock            timing.Clock
	Tree             *prompt.Tree // the tree of the requests' prompts, for PageTokens
	Capture          scheduler.Capture
	Rules            Rules
	Planner          bool // keep what Snapshot returns of each pass

	// Rank is the rank that events are filed under, Tokens appends the token
	// values of a prompt to dst. Both are read only where events name single
	// tokens: CaptureEvents without Rules.PageEvents.
	Rank   int32
	Tokens func(r *sim.Request, dst []uint64) []uint64
}

// maxPoolTokens bounds a pool, so that no sum of lengths overflows.
const maxPoolTokens = 1 << 40

// Check returns an error that names the first argument in c that is wrong.
func Check(c Config) error {
	switch {
	case c.PageTokens <= 0:
		return fmt.Errorf("block_size is %d, want > 0", c.PageTokens)
	case c.PageTokens > math.MaxInt32:
		return fmt.Errorf("block_size is %d, want at most %d", c.PageTokens, math.MaxInt32)
	case c.Pages <= 0:
		return fmt.Errorf("num_gpu_blocks is %d, want > 0", c.Pages)
	case c.Pages > math.MaxInt32 || c.Pages > maxPoolTokens/c.PageTokens:
		return fmt.Errorf("num_gpu_blocks %d of block_size %d tokens: want at most %d blocks and 2^40 tokens",
			c.Pages, c.PageTokens, math.MaxInt32)
	case c.MaxPrefillTokens <= 0:
		return fmt.Errorf("max_prefill_tokens is %d, want > 0", c.MaxPrefillTokens)
	case c.ChunkTokens <= 0:
		return fmt.Errorf("chunked_prefill_size is %d, want > 0", c.ChunkTokens)
	case c.PageTokens > c.ChunkTokens:
		return fmt.Errorf("chunked_prefill_size is %d, want at least block_size %d", c.ChunkTokens, c.PageTokens)
	case c.ClipNewTokens < 0:
		return fmt.Errorf("clip_max_new_tokens is %d, want >= 0", c.ClipNewTokens)
	case math.IsNaN(c.Conservativeness) || math.IsInf(c.Conservativeness, 0):
		return fmt.Errorf("schedule_conservativeness is %v, want a finite number", c.Conservativeness)
	case !c.Rules.CutAny && c.PageTokens > c.MaxPrefillTokens:
		return fmt.Errorf("max_prefill_tokens is %d, want at least block_size %d", c.MaxPrefillTokens, c.PageTokens)
	case c.Rules.Ratio && c.Conservativeness < 0:
		return fmt.Errorf("schedule_conservativeness is %v, want >= 0", c.Conservativeness)
	}
	return c.Rules.check()
}

// Fits returns the reason why a request of input and output tokens can never run
// on an engine made with c, however idle it is; nil when it can.
func Fits(c Config, input, output int) *scheduler.OversizeError {
	if c.Role == scheduler.Prefill {
		output = 1
	}
	pool := c.Pages * c.PageTokens
	if c.Rules.Intake {
		need := ceilTo(input+max(1, output), c.PageTokens)
		if need <= pool {
			return nil
		}
		return &scheduler.OversizeError{Input: input, Output: output, Blocks: need / c.PageTokens,
			Reason: fmt.Sprintf("needs %d tokens in %d pages of %d, the engine has %d in %d",
				need, need/c.PageTokens, c.PageTokens, pool, c.Pages)}
	}
	need := input + min(output, c.ClipNewTokens)
	if need < pool || c.Conservativeness < 0 {
		return nil
	}
	return &scheduler.OversizeError{Input: input, Output: output, Blocks: need/c.PageTokens + 1,
		Reason: fmt.Sprintf("is admitted only with more than %d tokens, the engine has %d in %d pages of %d",
			need, pool, c.Pages, c.PageTokens)}
}

// floorTo returns n cut to a multiple of page.
func floorTo(n, page int) int { return n - n%page }

// ceilTo returns n filled up to a multiple of page.
func ceilTo(n, page int) int { return floorTo(n+page-1, page) }
