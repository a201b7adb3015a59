package vllm_test

import (
	"slices"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// A fresh engine pauses once: in the first pass in which at least Warmup.Requests requests gain a token. If a pass is
// planned while another runs, the running pass is delayed.
func TestWarmup(t *testing.T) {
	for _, c := range []struct {
		name        string
		twoInFlight bool
		requests    int
		held        int // the delayed pass; -1: none
	}{
		{"the first", false, 1, 0},
		{"the first with two", false, 2, 2},
		{"the one before it, where two are in flight", true, 2, 2},
		{"none has three", false, 3, -1},
	} {
		tree := prompt.NewTree(4, 4, prompt.Options{})
		rules := releases.Rules019()
		rules.TwoInFlight = c.twoInFlight
		cfg := config(schedulertest.Setup{Tree: tree, BlockTokens: 4, Blocks: 100, MaxSeqs: 8, MaxBatchedTokens: 64}, rules)
		var plain, fresh []sim.Time
		for _, all := range []*[]sim.Time{&plain, &fresh} {
			core := build(t, cfg)
			core.Submit(request(tree, 0, 8, 9, 1, 2))
			var p scheduler.Pass
			for now, n := sim.Time(0), 0; core.Load() > 0; now, n = p.End, n+1 {
				if n == 2 {
					core.Submit(request(tree, 1, 8, 4, 3, 4))
				}
				if err := core.Step(now, now, &p); err != nil {
					t.Fatal(err)
				}
				*all = append(*all, p.End-p.Start)
			}
			cfg.Warmup = vllm.Warmup{Requests: c.requests, Time: 1000}
		}
		if c.held >= 0 {
			plain[c.held] += 1000
		}
		if !slices.EqualFunc(plain, fresh, func(a, b sim.Time) bool { return max(a-b, b-a) < 1e-6 }) {
			t.Errorf("%s: passes take %v ms, want %v", c.name, fresh, plain)
		}
	}
}
