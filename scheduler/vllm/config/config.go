// Package config is the configuration of a vLLM engine, and determines which requests the engine can complete.
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

// Unlimited is the value of a limit in Config that is switched off.
const Unlimited = 0

// Preemption selects the running request that is preempted when no KV blocks are free.
type Preemption uint8

const (
	LIFO Preemption = iota // the request admitted last
	FIFO                   // the request admitted first
)

func (p Preemption) String() string { return [...]string{"lifo", "fifo"}[p] }

// Policy is the order of admission and preemption.
type Policy uint8

const (
	FirstCome  Policy = iota // first come, first served; the request admitted last is preempted
	ByPriority               // lowest sim.Request.Priority first, then by arrival; the last request in this order is preempted
)

func (p Policy) String() string { return [...]string{"fcfs", "priority"}[p] }

// Config is the configuration of one simulated vLLM engine. Config has no defaults: fields that are not set are zero.
type Config struct {
	Settings
	Blocks        int          // number of KV blocks in the pool, > 0
	BlockTokens   int          // tokens per KV block, a power of two from 2 to 1024
	MaxLength     int          // maximum tokens of a sequence, including drafts; Unlimited switches the limit off
	PrefixCaching bool         // reuse cached blocks across requests
	Speculation   *Speculation // settings of speculative decoding; nil: none; not supported by the reference's rules
	Role          scheduler.Role
	Transfer      scheduler.Transfer // used on prefill workers only
	KeepSent      bool               // the KV blocks of a prompt are kept after it has left, until Release; not supported by the reference's rules or with Windows
	// Pull transfers KV caches like vLLM's NixlConnector, on both roles. A decode worker allocates blocks for a
	// prompt and reads the uncached part, and a prefill worker with KeepSent keeps its blocks until then. Pull is not
	// supported by the reference's rules or with Windows or Speculation. With Offload it is a connector of vLLM's
	// MultiConnector, in front of the host memory connector.
	Pull bool
	// Push makes prefill workers write to the blocks that decode workers have allocated, like vLLM's
	// NixlPushConnector. Push requires Pull.
	Push    bool
	Clock   timing.Clock
	Tree    *prompt.Tree // tree of the requests' prompts, built for BlockTokens
	Capture scheduler.Capture
	Planner bool           // record the data that Snapshot returns, and run one pass per step
	Offload blocks.Offload // host memory for KV blocks
	// SimpleHost manages host memory like vLLM's SimpleCPUOffloadConnector. SimpleHost is used with Offload only.
	// SimpleHost is not supported by the reference's rules, with Speculation or Windows, or on data-parallel ranks.
	SimpleHost bool
	// RankedHost manages host memory like the connector of vLLM 0.33; otherwise it is managed like in 0.24. Blocks of
	// a request are evicted by the time the request ended, its last block first. Loads begin after a pass, and a
	// request is not preempted while a running pass computes it. RankedHost is used with Offload or Pull only, and is
	// not supported by the reference's rules.
	RankedHost bool
}

// Speculation describes the speculative decoding of an engine. After every pass a drafter proposes tokens for each
// request that got a token, and the next pass verifies them.
type Speculation struct {
	Method scheduler.Drafter
	Tokens int // drafts per request and pass, > 0
	scheduler.Acceptance
}

// Budget returns the maximum number of tokens that a pass computes.
func (c *Config) Budget() int {
	switch s := c.Speculation; {
	case c.MaxBatchedTokens == Unlimited:
		return math.MaxInt
	case s != nil && s.Method == scheduler.ByDraftModel && c.Rules.DraftBudget:
		if left := c.MaxBatchedTokens - c.MaxSeqs; left != 0 || c.Rules.DraftRoom {
			return left
		} // vLLM 0.19 ignores a budget of 0, and later releases do not start with it
	}
	return c.MaxBatchedTokens
}

// HashesAhead reports whether the name of a block depends on the token after it, too.
func (c *Config) HashesAhead() bool {
	return c.PrefixCaching && c.Rules.HashAhead && c.Speculation != nil && c.Speculation.Method == scheduler.ByHead
}

// IsFull reports whether no more requests are admitted while that many requests run.
func (c *Config) IsFull(running int) bool {
	return c.MaxSeqs != Unlimited && running >= c.MaxSeqs
}

// maxTokens is the maximum number of tokens of a request. Cores count the tokens of a pass and the blocks of a prompt
// in 32 bits.
const maxTokens = math.MaxInt32

// CheckWholePrompt returns an error if a prompt without cached tokens exceeds a pass and chunked prefill is off,
// otherwise nil.
func (c *Config) CheckWholePrompt(input, output int) *scheduler.OversizeError {
	most := c.Budget()
	if c.ChunkedPrefill || input <= most {
		return nil
	}
	return &scheduler.OversizeError{Input: input, Output: output, Reason: fmt.Sprintf(
		"with chunked prefill off a prompt is computed whole, must be at most %s %d", TokensKey, most)}
}

// Fits returns an error if an idle engine cannot complete a request of these lengths, otherwise nil.
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
