// Package config is the configuration of a vLLM engine, and the requests that it can run to their end.
//
// Read config.go, then settings.go and blocks.go.
package config

import (
	"fmt"
	"math"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim/prompt"
)

// Unlimited lifts a limit of Config.
const Unlimited = 0

// Preemption is which running request loses its place when KV blocks run out.
type Preemption uint8

const (
	LIFO Preemption = iota // the one admitted last
	FIFO                   // the one admitted first
)

func (p Preemption) String() string { return [...]string{"lifo", "fifo"}[p] }

// Policy is the order in which requests are admitted and preempted.
type Policy uint8

const (
	FirstCome  Policy = iota // first come, first served; the last admitted loses its place
	ByPriority               // the least sim.Request.Priority first, then the first come; the last in that order loses its place
)

func (p Policy) String() string { return [...]string{"fcfs", "priority"}[p] }

// Config is the configuration of one simulated vLLM engine. It has no defaults: a field that is not set is zero.
type Config struct {
	Settings
	Blocks        int          // KV blocks of the pool, > 0
	BlockTokens   int          // tokens per KV block, 2 to 1024, a power of two
	MaxLength     int          // tokens of the longest sequence, drafts included; no request is longer; Unlimited lifts the limit
	PrefixCaching bool         // reuse cached blocks across requests
	Speculation   *Speculation // nil: none; not for the reference's rules
	Role          scheduler.Role
	Transfer      scheduler.Transfer // read on prefill workers only
	KeepSent      bool               // KV blocks of a prompt are held until Release when it has left; not for the reference's rules, nor with Windows
	// Pull transfers KV caches as vLLM's NixlConnector, on both roles: a decode worker takes blocks for a prompt and
	// reads the uncached part, and a prefill worker with KeepSent keeps its blocks until then. Not for the reference's
	// rules, nor with Windows or Speculation. With Offload it is one connector of vLLM's MultiConnector, before the one
	// to host memory.
	Pull bool
	// Push has prefill workers write what decode workers have taken blocks for, as with vLLM's NixlPushConnector. It takes Pull.
	Push    bool
	Clock   timing.Clock
	Tree    *prompt.Tree // the tree of the requests' prompts, for BlockTokens
	Capture scheduler.Capture
	Planner bool           // keep what Snapshot tells, and take one pass at a time
	Offload blocks.Offload // host memory behind the KV blocks
	// SimpleHost keeps host memory as vLLM's SimpleCPUOffloadConnector does. Read with Offload only; not for the reference's rules, nor
	// with Speculation or Windows, nor on data-parallel ranks.
	SimpleHost bool
	// RankedHost keeps host memory as the connector of vLLM 0.33: blocks of a request are evicted by the time of its
	// end, its last block first. Loads begin after a pass, and no request is preempted while a running pass computes
	// it. Otherwise as that of 0.24 does. Read with Offload or Pull only; not for the reference's rules.
	RankedHost bool
}

// Speculation is how an engine decodes speculatively: after every pass a drafter
// proposes tokens for each request that gained one, and the next pass verifies them.
type Speculation struct {
	Method scheduler.Drafter
	Tokens int // drafts per request and pass, > 0
	scheduler.Acceptance
}

// Budget returns the number of tokens a pass may compute.
func (c *Config) Budget() int {
	switch s := c.Speculation; {
	case c.MaxBatchedTokens == Unlimited:
		return math.MaxInt
	case s != nil && s.Method == scheduler.ByDraftModel && c.Rules.DraftBudget:
		if left := c.MaxBatchedTokens - c.MaxSeqs; left != 0 || c.Rules.DraftRoom {
			return left
		} // 0.19 takes a budget of 0 for none, and later releases do not start with it
	}
	return c.MaxBatchedTokens
}

// HashesAhead reports whether a block is known by the token after it, too.
func (c *Config) HashesAhead() bool {
	return c.PrefixCaching && c.Rules.HashAhead && c.Speculation != nil && c.Speculation.Method == scheduler.ByHead
}

// Crowded reports whether no more requests may run together with a number of them.
func (c *Config) Crowded(running int) bool {
	return c.MaxSeqs != Unlimited && running >= c.MaxSeqs
}

// maxTokens is the most tokens that a request may have in all: the cores count
// those of a pass, and the blocks of a prompt, in 32 bits.
const maxTokens = math.MaxInt32

// TakesWhole returns why the prompt of a request that finds nothing cached
// could never be computed, because it exceeds a pass and may not be cut; nil
// when it can.
func (c *Config) TakesWhole(input, output int) *scheduler.OversizeError {
	most := c.Budget()
	if c.ChunkedPrefill || input <= most {
		return nil
	}
	return &scheduler.OversizeError{Input: input, Output: output, Reason: fmt.Sprintf(
		"with chunked prefill off a prompt is computed whole, must be at most %s %d", TokensKey, most)}
}

// Fits returns why an idle engine cannot run a request of the given lengths to
// its end; nil when it can.
func (c *Config) Fits(input, output int) *scheduler.OversizeError {
	if output < 1 {
		return &scheduler.OversizeError{Input: input, Output: output, Reason: "an answer of 0 tokens never ends, expected output_length > 0"}
	}
	if input > maxTokens-output {
		return &scheduler.OversizeError{Input: input, Output: output, Reason: fmt.Sprintf(
			"it has %d tokens in all, must have at most %d", input+output, maxTokens)}
	}
	need := (input + output - 1 + c.lastTokenPlace() + c.BlockTokens - 1) / c.BlockTokens
	need = c.groupBlocks(need, (input+c.BlockTokens-1)/c.BlockTokens)
	if usable := c.UsableBlocks(); need > usable {
		return &scheduler.OversizeError{Input: input, Output: output, Blocks: need + c.Blocks - usable, Reason: fmt.Sprintf(
			"it needs %d KV blocks of %d tokens, must be at most num_gpu_blocks %d", need, c.BlockTokens, usable)}
	}
	return nil
}
