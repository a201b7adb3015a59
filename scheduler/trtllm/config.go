package trtllm

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Policy is the policy for admission of requests: capacity_scheduler_policy.
type Policy uint8

const (
	NoEvict     Policy = iota // blocks are reserved for whole answers
	MaxUtil                   // blocks are reserved only for the next pass, and requests may be paused
	Static                    // requests are admitted if no request runs
	MaxRequests               // there are no KV blocks: only max_batch_size limits requests
)

// Policies returns the names of the policies, indexed by Policy.
func Policies() []string {
	return []string{"GUARANTEED_NO_EVICT", "MAX_UTILIZATION", "STATIC_BATCH", "MAX_REQUESTS"}
}

// ParsePolicy returns the policy with the given name, or NoEvict if there is none.
func ParsePolicy(name string) Policy { return Policy(max(0, slices.Index(Policies(), name))) }

// Chunking is the policy for cutting prompts to the tokens of a pass: context_chunking_policy.
type Chunking uint8

const (
	Whole         Chunking = iota // prompts are not cut
	FirstCome                     // first come, first served
	EqualProgress                 // all prompts advance block by block in turn
)

// chunkingNames returns the names of the chunking policies, from FirstCome on.
func chunkingNames() []string { return []string{"FIRST_COME_FIRST_SERVED", "EQUAL_PROGRESS"} }

// Config is the configuration of one simulated TensorRT-LLM engine. Config has no defaults.
type Config struct {
	Rules
	Blocks      int // primary KV blocks, > 0
	BlockTokens int // tokens_per_block, > 0
	MaxBatch    int // max_batch_size, > 0
	MaxTokens   int // max_num_tokens, > 0
	MaxLength   int // max_seq_len; 0: no limit
	Policy      Policy
	Chunking    Chunking
	Overlap     bool // a pass is planned while the previous pass runs
	Reuse       bool // KV blocks are reused across requests
	Partial     bool // blocks are reused if only their first tokens match
	Copy        bool // partially matching blocks in use are copied
	WaitIters   int  // batch_wait_timeout_iters
	WaitRatio   float64
	Host        Host
	Retention   *Retention // nil: all blocks have DefaultPriority
	ByPriority  bool       // waiting_queue_policy is priority: the most urgent requests become active first
	EventBuffer int        // event_buffer_max_size: maximum number of events per pass; 0: no limit
	Role        scheduler.Role
	Transfer    scheduler.Transfer // transfer of KV caches from prefill workers
	KeepSent    bool               // a prefill worker keeps the KV blocks of a prompt until Release
	Clock       timing.Clock
	Tree        *prompt.Tree // prefix tree of the requests' prompts, with blocks of BlockTokens
	Capture     scheduler.Capture
	// Limit returns max_tokens of a request, at least its OutputTokens; nil: its OutputTokens.
	Limit func(r *sim.Request) int
}

// checkConfig returns an error about the first invalid argument in c.
func checkConfig(c Config) error {
	switch {
	case c.BlockTokens <= 0 || c.BlockTokens > math.MaxInt32:
		return fmt.Errorf("block_size is %d, must be 1 to %d", c.BlockTokens, math.MaxInt32)
	case c.Blocks <= 0 || c.Blocks > math.MaxInt32:
		return fmt.Errorf("num_gpu_blocks is %d, must be 1 to %d", c.Blocks, math.MaxInt32)
	case c.MaxBatch <= 0:
		return fmt.Errorf("max_batch_size is %d, must be at least 1", c.MaxBatch)
	case c.MaxTokens <= 0:
		return fmt.Errorf("max_num_tokens is %d, must be at least 1", c.MaxTokens)
	case c.Chunking != Whole && c.MaxTokens < c.BlockTokens:
		return fmt.Errorf("max_num_tokens is %d, must be at least block_size %d with chunked prefill", c.MaxTokens, c.BlockTokens)
	case c.Policy == MaxRequests && c.Reuse:
		return fmt.Errorf("capacity_scheduler_policy is MAX_REQUESTS with enable_prefix_caching: it is for engines without KV blocks")
	}
	if c.EventBuffer < 0 {
		return fmt.Errorf("event_buffer_max_size is %d, must be at least 0", c.EventBuffer)
	}
	return cmp.Or(c.Retention.check(c.Reuse), c.Host.check(c.Reuse))
}

// hasBlocks reports whether requests use KV blocks.
func (c *Config) hasBlocks() bool { return c.Policy != MaxRequests }

// Fits returns the reason why an idle engine cannot run a request of the given lengths, or nil if it can.
func (c *Config) Fits(input, output int) *scheduler.OversizeError {
	if c.Role == scheduler.Prefill {
		output = 1
	}
	if need := countBlocks(input+output, c.BlockTokens); need > c.Blocks && c.hasBlocks() {
		return &scheduler.OversizeError{Input: input, Output: output, Blocks: need, Reason: fmt.Sprintf(
			"it requires %d KV blocks of %d tokens, num_gpu_blocks is %d", need, c.BlockTokens, c.Blocks)}
	}
	if c.Chunking == Whole && input > c.MaxTokens && c.Role != scheduler.Decode {
		return &scheduler.OversizeError{Input: input, Output: output, Reason: fmt.Sprintf(
			"max_num_tokens is %d without enable_chunked_prefill", c.MaxTokens)}
	}
	return nil
}

func countBlocks(a, b int) int { return (a + b - 1) / b }
