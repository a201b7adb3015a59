package trtllm

import (
	"fmt"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

func buildRanks(t *testing.T, s schedulertest.Setup, n int, b Balance, change ...func(*Config)) *Ranks {
	t.Helper()
	c := Config{
		Rules: RulesOf(Newest), Blocks: s.Blocks, BlockTokens: s.BlockTokens, MaxBatch: s.MaxSeqs, MaxTokens: s.MaxBatchedTokens,
		Overlap: true, Reuse: true, Partial: true, Copy: true, Tree: s.Tree,
		Clock: timing.Clock{Model: timing.Polynomial{}, Speedup: 1, DecodeSpeedup: 1},
	}
	for _, f := range change {
		f(&c)
	}
	w, err := NewRanks(c, n, b)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// Ranks complete every request, with and without prompts that wait for each other.
func TestRanksSuite(t *testing.T) {
	for name, b := range map[string]Balance{"plain": {}, "balanced": {On: true, TimeoutIters: 5, WaitIters: 2}} {
		t.Run(name, func(t *testing.T) {
			schedulertest.Run(t, func(s schedulertest.Setup) scheduler.Core { return buildRanks(t, s, 2, b) })
		})
		for _, overlap := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s decode workers, overlap %v", name, overlap), func(t *testing.T) {
				schedulertest.Run(t, func(s schedulertest.Setup) scheduler.Core {
					return buildRanks(t, s, 2, b, func(c *Config) { c.Role, c.Overlap = scheduler.Decode, overlap })
				})
			})
		}
	}
}

// The worked example of the source: ranks with 3 and 1 requests, of 300 and 900 prompt tokens, receive prompts of
// 100, 50, 200 and 10 tokens.
func TestRequestsAreSpread(t *testing.T) {
	tree := prompt.NewTree(16, 16, prompt.Options{})
	w := buildRanks(t, schedulertest.Setup{Tree: tree, BlockTokens: 16, Blocks: 4000, MaxSeqs: 16, MaxBatchedTokens: 8192}, 2, Balance{})
	id := 0
	submit := func(tokens int, to func(*sim.Request)) {
		r := &sim.Request{ID: sim.RequestID(id), InputTokens: tokens, OutputTokens: 500, Prompt: prompt.Prompt{Seed: int32(id + 1)}}
		id++
		to(r)
	}
	submit(900, w.ranks[1].Submit)
	for range 3 {
		submit(100, w.ranks[0].Submit)
	}
	var p scheduler.Pass
	if err := w.Step(0, 0, &p); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{100, 50, 200, 10} {
		submit(n, w.Submit)
	}
	w.spreadRequests()
	if a, b := w.ranks[0].live, w.ranks[1].live; a != 4 || b != 4 {
		t.Errorf("ranks have %d and %d requests, want 4 each", a, b)
	}
	if got := w.ranks[0].line.Front().InputTokens; got != 200 {
		t.Errorf("rank 0 got a prompt of %d tokens, want the one of 200", got)
	}
}

// Each rank has host memory. The worker sums the copies of all ranks, and its pass waits for the slowest rank.
func TestRanksHaveHostMemory(t *testing.T) {
	tree := prompt.NewTree(4, 4, prompt.Options{})
	c := Config{
		Rules: RulesOf(Newest), Blocks: 4, BlockTokens: 4, MaxBatch: 4, MaxTokens: 64, Reuse: true, Partial: true, Copy: true, Tree: tree,
		Host:  Host{Blocks: 4, BytesPerToken: 1e6, ToHostGBPerSecond: 0.4, ToGPUGBPerSecond: 0.1},
		Clock: timing.Clock{Model: timing.Polynomial{}, Speedup: 1, DecodeSpeedup: 1},
	}
	ranks, err := NewRanks(c, 2, Balance{})
	if err != nil {
		t.Fatal(err)
	}
	now, p := sim.Time(0), new(scheduler.Pass)
	var took []sim.Time
	for i, ids := range [][]uint64{{1, 2, 3}, {4, 5, 6, 7}, {1, 2, 3}} {
		for rank := range uint64(2) { // both ranks get similar requests
			r := &sim.Request{ID: sim.RequestID(2*uint64(i) + rank), InputTokens: 4*len(ids) - 3, OutputTokens: 1}
			all := []uint64{ids[0], ids[1], ids[2], 9}[:len(ids)]
			for k := range all {
				all[k] += 100 * rank
			}
			r.Prompt = tree.Add(all, r.InputTokens)
			ranks.Submit(r)
		}
		if err := ranks.Step(now, now, p); err != nil {
			t.Fatal(err)
		}
		took, now = append(took, p.End-now), p.End
	}
	if p.FromHost != 2*8 || p.ToHost != 2*12 {
		t.Errorf("%d tokens to the host, %d back", p.ToHost, p.FromHost)
	}
	if d := took[2] - took[0]; d < 75 || d > 80.1 {
		t.Errorf("the third pass took %v ms more than the first, want 80 for copies, less what it does not compute", d)
	}
}
