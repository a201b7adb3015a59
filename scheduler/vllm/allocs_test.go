package vllm_test

import (
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// After a warm-up, a pass allocates no memory. The requests are of a repeated trace, on a pool that is too small for
// them.
func TestPassDoesNotAllocate(t *testing.T) {
	for name, engine := range map[string]struct {
		rules   vllm.Rules
		windows vllm.Windows
	}{
		"vllm-0.19": {rules: releases.Rules019()},
		"vllm-0.33": {rules: releases.Rules033()},
		"windows":   {releases.Rules033(), vllm.Windows{Tokens: 100, Groups: 2, Full: 1}},
		"chunks":    {releases.Rules033(), vllm.Windows{Tokens: 256, Chunked: true, Groups: 2, Full: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			tree := prompt.NewTree(64, 16, prompt.Options{Joined: true})
			prompts := tree.AddAll(300, func(i int) (ids []uint64, tokens int) {
				for k := range uint64(4 + i%17) {
					ids = append(ids, k+uint64(k/4*1000*uint64(i%100))) // the first four ids are common
				}
				return ids, len(ids)*64 - i%64
			})
			c := config(schedulertest.Setup{Tree: tree, BlockTokens: 16, Blocks: 250, MaxBatchedTokens: 512}, engine.rules)
			c.Capture, c.Windows = scheduler.CaptureResidency, engine.windows
			if c.Windows.Given() {
				c.Blocks = 450
			}
			core, pass, now, next, lost := build(t, c), new(scheduler.Pass), sim.Time(0), 0, 0
			var requests []*sim.Request
			for i := range prompts.Len() {
				requests = append(requests, &sim.Request{
					ID: sim.RequestID(i), InputTokens: (4+i%17)*64 - i%64, OutputTokens: 1 + i*37%400, Prompt: prompts.At(i),
				})
			}
			step := func() {
				for ; core.Load() < 12; next++ {
					core.Submit(requests[next%len(requests)])
				}
				if err := core.Step(now, now+1000, pass); err != nil {
					t.Fatal(err)
				}
				now, lost = pass.End, lost+pass.Preempted
			}
			for range 20_000 {
				step()
			}
			if n := testing.AllocsPerRun(3000, step); n != 0 || lost == 0 {
				t.Errorf("%v allocations per pass, want 0; %d requests lost their places, want some", n, lost)
			}
		})
	}
}
