package trtllm

import (
	"testing"
	"unsafe"

	"github.com/replay-llm/replay/internal/invariant"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// variants returns the configurations of the suite.
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
		"max requests":    func(c *Config) { c.Policy, c.Reuse = MaxRequests, false },
		"host memory": func(c *Config) {
			c.Host = Host{Blocks: 8, BytesPerToken: 1000, ToHostGBPerSecond: 0.1, ToGPUGBPerSecond: 0.05}
		},
		"decode worker":             func(c *Config) { c.Role = scheduler.Decode },
		"decode worker, max":        func(c *Config) { c.Role, c.Policy = scheduler.Decode, MaxUtil },
		"decode worker, plain loop": func(c *Config) { c.Role, c.Overlap = scheduler.Decode, false },
		"prefill worker":            func(c *Config) { c.Role, c.Transfer.Latency = scheduler.Prefill, 20 },
		"events":                    func(c *Config) { c.Capture, c.Host.Blocks = scheduler.CaptureEvents, 8 },
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

// Requests can be canceled in every variant.
func TestCancel(t *testing.T) {
	for name, change := range variants() {
		t.Run(name, func(t *testing.T) {
			schedulertest.RunCancel(t, false, func(s schedulertest.Setup) scheduler.Core { return build(t, s, change) })
		})
	}
}

// A pass allocates no memory after all slices have reached their size.
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
	if n := testing.AllocsPerRun(200, step); n > 0.5 { // the lists of blocks of requests grow sometimes
		t.Errorf("%v allocations a pass", n)
	}
}

// A prompt found in host memory is copied to the GPU, and its pass waits for the copies.
func TestHostMemoryTakesTime(t *testing.T) {
	tree := prompt.NewTree(4, 4, prompt.Options{})
	core := build(t, schedulertest.Setup{Tree: tree, BlockTokens: 4, Blocks: 4, MaxSeqs: 4, MaxBatchedTokens: 64}, func(c *Config) {
		c.Overlap, c.Host = false, Host{Blocks: 4, BytesPerToken: 1e6, ToHostGBPerSecond: 0.4, ToGPUGBPerSecond: 0.1}
	})
	now, p := sim.Time(0), new(scheduler.Pass)
	var took []sim.Time
	for i, ids := range [][]uint64{{1, 2, 3}, {4, 5, 6, 7}, {1, 2, 3}} {
		r := &sim.Request{ID: sim.RequestID(i), InputTokens: 4*len(ids) - 3, OutputTokens: 1}
		r.Prompt = tree.Add(ids, r.InputTokens)
		core.Submit(r)
		if err := core.Step(now, now, p); err != nil {
			t.Fatal(err)
		}
		took, now = append(took, p.End-now), p.End
	}
	// A block has 4,000,000 bytes in each direction: 10 ms to the host and 40 ms back. The second prompt moves three
	// blocks to the host. The third moves two more blocks to the host than it loads.
	ms, err := core.Clock.Step(&core.step)
	if err != nil {
		t.Fatal(err)
	}
	if p.FromHost != 8 || p.ToHost != 12 || p.Admitted[0].FromHost != 8 {
		t.Errorf("%d tokens to the host, %d back, %+v", p.ToHost, p.FromHost, p.Admitted)
	}
	if d := took[1] - took[0]; d < 30 || d > 40 {
		t.Errorf("the second pass took %v ms more than the first", d)
	}
	if d := float64(took[2]) - ms; d < 79.9 || d > 80.1 {
		t.Errorf("the third pass waits for %v ms, not 80", d)
	}
}

// A block fits in a cache line, because a replay spends most of its time on blocks that are not in the processor's
// caches.
func TestBlockFitsCacheLine(t *testing.T) {
	if n := unsafe.Sizeof(block{}); n > 64 {
		t.Errorf("a block has %d bytes", n)
	}
}
