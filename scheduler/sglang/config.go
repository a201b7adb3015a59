package sglang

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang/radix"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Policy is the order in which waiting requests are admitted.
type Policy uint8

const (
	FIFO Policy = iota // requests in the order of arrival
	LPM                // longest cached prefix first
	LOF                // longest output first
	HRRN               // highest response ratio next

	ShortestPrefill // fewest prompt tokens to compute first
	Random          // a new random order for each plan
)

// listPolicies returns the names of the policies, indexed by Policy.
func listPolicies() []string {
	return []string{"fifo", "lpm", "lof", "hrrn", "shortest-prefill-first", "random"}
}

// ParsePolicy returns the policy with the given name, or FIFO if there is none.
func ParsePolicy(name string) Policy { return Policy(max(0, slices.Index(listPolicies(), name))) }

// Config is the configuration of one simulated SGLang engine. Config has no defaults: every field is used unchanged.
// ChunkTokens must be a multiple of PageTokens, and LogInterval must be > 0.
type Config struct {
	Settings
	Pages         int    // pages of the token pool, > 0
	PageTokens    int    // tokens per page, > 0
	Policy        Policy // order of the queue
	Seed          uint64 // seed of the order Random
	Overlap       bool   // a pass is planned while the previous pass runs
	PrefixCaching bool   // reuse cached pages across requests
	WindowPages   int    // pages in the pool of layers with a window
	Role          scheduler.Role
	Transfer      scheduler.Transfer // only used on prefill workers
	Clock         timing.Clock
	Tree          *prompt.Tree // prefix tree of the requests' prompts, with blocks of PageTokens
	Capture       scheduler.Capture
	Planner       bool // keep the data for Snapshot of each pass
	HiCache       HiCache

	Speculation *Speculation // nil: a decode pass computes one token per request

	// Rank is the rank in events. Tokens appends the token values of a prompt to dst. Only the reference's rules use
	// Rank and Tokens, for events of single tokens.
	Rank   int32
	Tokens func(r *sim.Request, dst []uint64) []uint64
}

// maxPoolTokens is the maximum size of a pool, so that sums of lengths do not overflow.
const maxPoolTokens = 1 << 40

// Check returns an error about the first invalid argument in c.
func Check(c Config) error {
	switch {
	case c.PageTokens <= 0 || c.PageTokens > math.MaxInt32:
		return fmt.Errorf("block_size is %d, must be 1 to %d", c.PageTokens, math.MaxInt32)
	case c.Pages <= 0:
		return fmt.Errorf("num_gpu_blocks is %d, must be > 0", c.Pages)
	case c.Pages > math.MaxInt32 || c.Pages > maxPoolTokens/c.PageTokens:
		return fmt.Errorf("num_gpu_blocks %d of block_size %d tokens: must be at most %d blocks and 2^40 tokens",
			c.Pages, c.PageTokens, math.MaxInt32)
	case c.MaxRunning < 0:
		return fmt.Errorf("max_running_requests is %d, must be > 0, or 0 for no limit", c.MaxRunning)
	case c.PrefillRequests < 0:
		return fmt.Errorf("prefill_max_requests is %d, must be > 0, or 0 for no limit", c.PrefillRequests)
	case c.MaxPrefillTokens <= 0:
		return fmt.Errorf("max_prefill_tokens is %d, must be > 0", c.MaxPrefillTokens)
	case c.ChunkTokens <= 0:
		return fmt.Errorf("chunked_prefill_size is %d, must be > 0", c.ChunkTokens)
	case c.PageTokens > c.ChunkTokens:
		return fmt.Errorf("chunked_prefill_size is %d, must be at least block_size %d", c.ChunkTokens, c.PageTokens)
	case c.LogInterval <= 0:
		return fmt.Errorf("decode_log_interval is %d, must be > 0", c.LogInterval)
	case c.Window < 0 || c.Window > math.MaxInt32:
		return fmt.Errorf("sliding_window_size is %d, must be 0 to %d", c.Window, math.MaxInt32)
	case c.Window > 0 && (c.WindowPages > c.Pages || c.WindowPages < 1):
		return fmt.Errorf("swa_full_tokens_ratio gives layers with a window %d tokens of the pool's %d, must be at least a page of %d and no more than the pool",
			c.WindowPages*c.PageTokens, c.Pages*c.PageTokens, c.PageTokens)
	case c.DecodeInterval < 0 || c.IntervalSeats < 0:
		return fmt.Errorf("prefill_decode_interval is %d, and %d for prefill_decode_interval_min_bs, must be >= 0", c.DecodeInterval, c.IntervalSeats)
	case c.Policy == ShortestPrefill && !c.PrefixCaching:
		return errors.New("schedule_policy is shortest-prefill-first, requires enable_prefix_caching")
	case c.Priorities.Threshold < 0:
		return fmt.Errorf("priority_scheduling_preemption_threshold is %d, must be >= 0, or requests preempt each other for good", c.Priorities.Threshold)
	case c.Priorities.On && c.Policy != FIFO && c.Policy != LOF:
		return errors.New("enable_priority_scheduling is true, requires schedule_policy fcfs or lof")
	case c.Priorities.Retract && !c.Priorities.On:
		return errors.New(`retraction_policy is "priority", requires enable_priority_scheduling`)
	case c.Eviction.Policy != radix.LRU && c.Window > 0:
		return errors.New("sliding_window_size requires radix_eviction_policy lru: only lru was compared there")
	case c.Eviction.Policy != radix.LRU && c.HiCache.Pages > 0:
		return errors.New("enable_hierarchical_cache requires radix_eviction_policy lru: only lru was compared there")
	case c.ClipNewTokens < 0:
		return fmt.Errorf("clip_max_new_tokens is %d, must be >= 0", c.ClipNewTokens)
	case !(c.Conservativeness >= 0) || math.IsInf(c.Conservativeness, 0):
		return fmt.Errorf("schedule_conservativeness is %v, must be a finite number >= 0", c.Conservativeness)
	case c.Speculation != nil && (c.Speculation.Steps <= 0 || c.Speculation.TopK <= 0 || c.Speculation.Tokens <= 1):
		return fmt.Errorf("speculative_num_steps is %d, speculative_eagle_topk %d and speculative_num_draft_tokens %d, must be > 0, > 0 and > 1",
			c.Speculation.Steps, c.Speculation.TopK, c.Speculation.Tokens)
	case c.ReservedDecode < 0:
		return fmt.Errorf("num_reserved_decode_tokens is %d, must be >= 0", c.ReservedDecode)
	case c.Clock.Model == nil:
		return errors.New("the clock has no timing model")
	case c.Tree == nil || c.Tree.BlockTokens() != c.PageTokens:
		return fmt.Errorf("the prompts' tree is not made for pages of %d tokens", c.PageTokens)
	}
	return checkHiCache(c)
}

// floorTo returns n rounded down to a multiple of page.
func floorTo(n, page int) int { return n - n%page }

// ceilTo returns n rounded up to a multiple of page.
func ceilTo(n, page int) int { return floorTo(n+page-1, page) }

// ratio is the estimated share of the reserved output tokens that will be needed.
type ratio struct{ now, first, least, step float64 }

func newRatio(conservativeness float64) ratio {
	var r ratio
	r.first = min(float64(0.7*conservativeness), 1.0)
	r.least = min(float64(r.first*0.14), 1.0)
	r.step = float64(r.first-r.least) / 600.0
	r.now = r.first
	return r
}

func (r *ratio) decay() { r.now = max(r.now-r.step, r.least) }

// retractSteps is the number of tokens per running request that a retraction makes room for, in addition to the
// immediate need.
const retractSteps = 20

// estimate sets the ratio after a retraction. gained and asked are the gained and the maximum output tokens of the n
// requests that still run.
func (r *ratio) estimate(n, gained, asked int) {
	r.now = min(1.0, float64(gained+retractSteps*n)/float64(asked+1))
}
