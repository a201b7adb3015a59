package vllm_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
	"github.com/replay-llm/replay/sim/prompt"
)

// A core that cannot make progress returns an error with the request and the reason.
func TestStalls(t *testing.T) {
	type at = schedulertest.Arrival
	for _, c := range []struct {
		name    string
		change  func(*vllm.Config)
		inputs  []int
		passes  int // number of passes before the stall
		request int
		reason  string
	}{
		{
			"a prompt that may not be cut exceeds a pass",
			func(c *vllm.Config) { c.Rules, c.ChunkedPrefill, c.MaxBatchedTokens = releases.Rules019(), false, 8 },
			[]int{8, 9}, 3, 1, "9 tokens to compute with chunked prefill off, must be at most max_num_batched_tokens 8",
		},
		{
			"a request is larger than the pool",
			func(c *vllm.Config) { c.Rules, c.Blocks = releases.Rules019(), 3 },
			[]int{9}, 0, 0, "nothing can run: 0 of 9 tokens computed, 2 of 3 KV blocks to be had",
		},
		{
			"requests that are admitted at each other's cost",
			func(c *vllm.Config) { c.Rules.RecomputeLast, c.Blocks, c.MaxBatchedTokens = true, 4, 2 },
			[]int{13, 8}, 100_023, 0, "passes without a token: requests keep preempting each other for 4 KV blocks",
		},
	} {
		tree := prompt.NewTree(4, 4, prompt.Options{})
		cfg := config(schedulertest.Setup{Tree: tree, BlockTokens: 4, Blocks: 100, MaxSeqs: 8, MaxBatchedTokens: 64}, vllm.Rules{})
		cfg.Clock = second()
		c.change(&cfg)
		var arrivals []at
		for id, n := range c.inputs {
			arrivals = append(arrivals, at{Request: request(tree, id, n, 2, uint64(10*id), uint64(10*id+1), uint64(10*id+2), uint64(10*id+3))})
		}
		passes := 0
		err := schedulertest.Replay(build(t, cfg), arrivals, schedulertest.OneByOne, func(schedulertest.Step) error {
			passes++
			return nil
		})
		var stall *scheduler.StallError
		if !errors.As(err, &stall) || int(stall.Request) != c.request || !strings.HasSuffix(stall.Reason, c.reason) {
			t.Errorf("%s: %v", c.name, err)
		}
		if passes != c.passes {
			t.Errorf("%s: %d passes before it, want %d", c.name, passes, c.passes)
		}
	}
}
