package trtllm

import (
	"testing"

	"github.com/replay-llm/replay/internal/invariant"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// variants are engines of the suite.
func variants() map[string]func(*Config) {
	return map[string]func(*Config){
		"overlap":         func(*Config) {},
		"plain loop":      func(c *Config) { c.Overlap = false },
		"max utilization": func(c *Config) { c.Policy = MaxUtil },
		"static":          func(c *Config) { c.Policy = Static },
		"chunks":          func(c *Config) { c.Chunking, c.MaxTokens = FirstCome, 48 },
		"equal progress":  func(c *Config) { c.Chunking, c.MaxTokens = EqualProgress, 48 },
		"release 1.2":     func(c *Config) { c.Rules = RulesOf("trtllm-1.2") },
		"no reuse":        func(c *Config) { c.Reuse = false },
	}
}

func build(t *testing.T, s schedulertest.Setup, change func(*Config)) *Core {
	t.Helper()
	c := Config{
		Rules: RulesOf(Newest), Blocks: s.Blocks, BlockTokens: s.BlockTokens, MaxBatch: s.MaxSeqs, MaxTokens: s.MaxBatchedTokens,
		Overlap: true, Reuse: true, Partial: true, Copy: true, Tree: s.Tree, Capture: scheduler.CaptureResidency,
		Clock: timing.Clock{Model: timing.Polynomial{}, Speedup: 1, DecodeSpeedup: 1},
	}
	change(&c)
	core, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return core
}

func TestSuite(t *testing.T) {
	for name, change := range variants() {
		t.Run(name, func(t *testing.T) {
			schedulertest.Run(t, func(s schedulertest.Setup) scheduler.Core { return build(t, s, change) })
		})
	}
}

// Requests can be taken out, whatever the engine does.
func TestCancel(t *testing.T) {
	for name, change := range variants() {
		t.Run(name, func(t *testing.T) {
			schedulertest.RunCancel(t, false, func(s schedulertest.Setup) scheduler.Core { return build(t, s, change) })
		})
	}
}

// A pass makes no garbage once everything has its size.
func TestPassesDoNotAllocate(t *testing.T) {
	if invariant.Enabled {
		t.Skip("checks allocate")
	}
	tree := prompt.NewTree(16, 16, prompt.Options{})
	core := build(t, schedulertest.Setup{Tree: tree, BlockTokens: 16, Blocks: 4000, MaxSeqs: 16, MaxBatchedTokens: 512}, func(*Config) {})
	for id := range 40 {
		r := &sim.Request{ID: sim.RequestID(id), InputTokens: 64, OutputTokens: 1500}
		r.Prompt = tree.Add([]uint64{1, 2, 3, uint64(id)}, 64)
		core.Submit(r)
	}
	now, p := sim.Time(0), new(scheduler.Pass)
	step := func() {
		if err := core.Step(now, now, p); err != nil {
			t.Fatal(err)
		}
		now = p.End
	}
	for range 400 {
		step()
	}
	if n := testing.AllocsPerRun(200, step); n > 0.5 { // the blocks of requests are lists that grow now and then
		t.Errorf("%v allocations a pass", n)
	}
}
