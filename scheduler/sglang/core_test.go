package sglang

import (
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/invariant"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// config returns an engine with default arguments and the given page size and pool.
func config(pageTokens, pages int) Config {
	return Config{
		Settings: Settings{MaxPrefillTokens: 16384, ChunkTokens: floorTo(8192, pageTokens), ClipNewTokens: 4096, Conservativeness: 1, LogInterval: 40},
		Pages:    pages, PageTokens: pageTokens, Overlap: true, PrefixCaching: true, Tree: prompt.NewTree(4*pageTokens, pageTokens, prompt.Options{}),
		Clock: timing.Clock{Model: timing.Polynomial{}, Speedup: 1, DecodeSpeedup: 1},
	}
}

func mustBuild(t testing.TB, c Config) *Core {
	t.Helper()
	core, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return core
}

// variants returns changes of the configuration that change the behavior of the core.
func variants() map[string]func(*Config) {
	return map[string]func(*Config){
		"overlap":   func(*Config) {},
		"normal":    func(c *Config) { c.Overlap = false },
		"residency": func(c *Config) { c.Capture = scheduler.CaptureResidency },
		"events":    func(c *Config) { c.Capture = scheduler.CaptureEvents },
		"prefixes":  func(c *Config) { c.Policy = LPM },
		"chunks":    func(c *Config) { c.ChunkTokens = 16 },
		"mixed":     func(c *Config) { c.MixedChunk = true },
		"mixed one": func(c *Config) { c.MixedChunk, c.Overlap, c.ChunkTokens = true, false, 32 },
		"ratio":     func(c *Config) { c.Policy = HRRN },
		"longest":   func(c *Config) { c.Policy, c.PrefillRequests = LOF, 2 },
		"exact":     func(c *Config) { c.PrefixCaching, c.IgnoreEOS = false, true },
		"shortest":  func(c *Config) { c.Policy, c.ChunkTokens = ShortestPrefill, 32 },
		"interval":  func(c *Config) { c.DecodeInterval = 3 },
		"waits":     func(c *Config) { c.DecodeInterval, c.IntervalSeats, c.Overlap = 5, 2, false },
		"urgent":    func(c *Config) { c.MaxRunning, c.Priorities = 3, Priorities{On: true, Preempt: true, Retract: true} },
		"least":     func(c *Config) { c.Policy, c.Priorities = LOF, Priorities{On: true, LowFirst: true, Retract: true} },
		"seats":     func(c *Config) { c.MaxRunning = 3 },
		"no cache":  func(c *Config) { c.PrefixCaching = false },
		"windows":   func(c *Config) { c.Window, c.WindowPages = 20, c.Pages },
		"windows in one loop": func(c *Config) {
			c.Window, c.WindowPages, c.Overlap, c.Capture = 20, c.Pages, false, scheduler.CaptureResidency
		},
		"windows, no cache": func(c *Config) { c.Window, c.WindowPages, c.PrefixCaching = 20, c.Pages, false },
		"eager":             func(c *Config) { c.Conservativeness, c.ClipNewTokens = 0, 1 },
		"decode":            func(c *Config) { c.Role, c.ReservedDecode = scheduler.Decode, 20 },
		"decode one":        func(c *Config) { c.Role, c.Overlap, c.MaxRunning = scheduler.Decode, false, 3 },
		"decode few":        func(c *Config) { c.Role, c.MaxRunning, c.ClipNewTokens = scheduler.Decode, 4, 1 },
		"eager one":         func(c *Config) { c.Conservativeness, c.ClipNewTokens, c.Overlap = 0, 1, false },
		"host":              func(c *Config) { c.HiCache = hostMemory(c, 2, WriteThrough) },
		"host back":         func(c *Config) { c.HiCache = hostMemory(c, 0.5, WriteBack) },
		"host back one": func(c *Config) {
			c.HiCache = hostMemory(c, 0.5, WriteBack)
			c.Overlap, c.Capture, c.Policy = false, scheduler.CaptureEvents, LPM
		},
		"host selective": func(c *Config) {
			c.HiCache = hostMemory(c, 1, WriteThroughSelective)
			c.Capture, c.Conservativeness, c.ClipNewTokens = scheduler.CaptureResidency, 0, 1
		},
	}
}

// hostMemory returns slow host memory for the pool of c.
func hostMemory(c *Config, ratio float64, policy WritePolicy) HiCache {
	return HiCache{
		Pages: HostPages(c.Pages, c.PageTokens, ratio), Policy: policy, BytesPerToken: 131072,
		ToHostGBPerSecond: 0.3, ToGPUGBPerSecond: 2, Layers: 32,
	}
}

// draftVariants returns the variants with speculative decoding.
func draftVariants() map[string]func(*Config) {
	return map[string]func(*Config){
		"drafts":     func(c *Config) { c.Speculation = speculate(scheduler.ByHead, 1, 0.6) },
		"drafts one": func(c *Config) { c.Speculation, c.Overlap = speculate(scheduler.ByHead, 1, 0.6), false },
		"tree": func(c *Config) {
			c.Speculation, c.Capture = speculate(scheduler.ByHead, 2, 0.9), scheduler.CaptureResidency
		},
		"drafts mixed": func(c *Config) {
			c.Speculation, c.MixedChunk, c.Capture = speculate(scheduler.ByHead, 1, 0.6), true, scheduler.CaptureEvents
		},
		"draft model": func(c *Config) { c.Speculation, c.Conservativeness = speculate(scheduler.ByDraftModel, 1, 1), 0 },
		"lookup":      func(c *Config) { c.Speculation, c.PrefixCaching = speculate(scheduler.ByLookup, 1, 0.3), false },
	}
}

// speculate returns a configuration with two draft steps and the given acceptance rate.
func speculate(by scheduler.Drafter, topk int, rate float64) *Speculation {
	return &Speculation{Drafts{by, 2, topk, 3}, scheduler.Acceptance{Low: rate, High: rate, Seed: 1}}
}

func suiteConfig(s schedulertest.Setup, change func(*Config)) Config {
	c := config(s.BlockTokens, s.Blocks)
	c.Tree, c.MaxPrefillTokens = s.Tree, s.MaxBatchedTokens
	if change(&c); c.Speculation != nil { // drafts change which requests fit
		c.Pages += ceilTo(c.Speculation.reserve(c.PageTokens), c.PageTokens) / c.PageTokens
	}
	return c
}

func TestSuite(t *testing.T) {
	for name, change := range variants() {
		t.Run(name, func(t *testing.T) {
			schedulertest.Run(t, func(s schedulertest.Setup) scheduler.Core { return mustBuild(t, suiteConfig(s, change)) })
		})
	}
}

// Requests can be canceled in every variant.
func TestCancel(t *testing.T) {
	all := variants()
	maps.Copy(all, draftVariants())
	for name, change := range all {
		t.Run(name, func(t *testing.T) {
			exact := !strings.HasPrefix(name, "host") // false if evictions take time
			schedulertest.RunCancel(t, exact, func(s schedulertest.Setup) scheduler.Core { return mustBuild(t, suiteConfig(s, change)) })
		})
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*Config)
		want string // part of the error; "": no error
	}{
		{"as it is", func(*Config) {}, ""},
		{"no page", func(c *Config) { c.PageTokens = 0 }, "block_size is 0"},
		{"no pages", func(c *Config) { c.Pages = 0 }, "num_gpu_blocks is 0"},
		{"a pool beyond simulation", func(c *Config) { c.Pages, c.PageTokens = math.MaxInt32, math.MaxInt32 }, "2^40 tokens"},
		{"no prefill", func(c *Config) { c.MaxPrefillTokens = 0 }, "max_prefill_tokens is 0"},
		{"no chunk", func(c *Config) { c.ChunkTokens = 0 }, "chunked_prefill_size is 0"},
		{"a chunk below a page", func(c *Config) { c.ChunkTokens = 15 }, "at least block_size 16"},
		{"a budget below a page", func(c *Config) { c.MaxPrefillTokens = 15 }, ""},
		{"negative conservativeness", func(c *Config) { c.Conservativeness = -1 }, "schedule_conservativeness is -1"},
		{"no number", func(c *Config) { c.Conservativeness = math.NaN() }, "schedule_conservativeness is NaN"},
		{"a clip of nothing", func(c *Config) { c.ClipNewTokens = 0 }, ""},
		{"a negative clip", func(c *Config) { c.ClipNewTokens = -1 }, "clip_max_new_tokens is -1"},
		{"no interval", func(c *Config) { c.LogInterval = 0 }, "decode_log_interval is 0"},
		{"shortest without a cache", func(c *Config) { c.Policy, c.PrefixCaching = ShortestPrefill, false }, "requires enable_prefix_caching"},
		{"a negative interval", func(c *Config) { c.DecodeInterval = -1 }, "prefill_decode_interval is -1"},
		{"a negative threshold", func(c *Config) { c.Priorities.Threshold = -1 }, "priority_scheduling_preemption_threshold is -1"},
		{"priorities by lpm", func(c *Config) { c.Priorities.On, c.Policy = true, LPM }, "requires schedule_policy fcfs or lof"},
		{"retraction by what does not count", func(c *Config) { c.Priorities.Retract = true }, "requires enable_priority_scheduling"},
		{"fewer than no requests", func(c *Config) { c.MaxRunning = -1 }, "max_running_requests is -1"},
		{"a window", func(c *Config) { c.Window, c.WindowPages = 100, 8 }, ""},
		{"a window of the whole pool", func(c *Config) { c.Window, c.WindowPages = 112, 8 }, ""},
		{"windows of nothing", func(c *Config) { c.Window, c.WindowPages = 112, 0 }, "layers with a window 0 tokens"},
		{"windows beyond the pool", func(c *Config) { c.Window, c.WindowPages = 100, 101 }, "layers with a window 1616 tokens of the pool's 1600"},
		{"a window of less than nothing", func(c *Config) { c.Window = -1 }, "sliding_window_size is -1"},
		{"no times", func(c *Config) { c.Clock.Model = nil }, "timing model"},
		{"another tree", func(c *Config) { c.Tree = prompt.NewTree(8, 8, prompt.Options{}) }, "pages of 16"},
	} {
		cfg := config(16, 100)
		c.set(&cfg)
		_, err := New(cfg)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v, want no complaint", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want a complaint with %q", c.name, err, c.want)
		}
	}
}

func TestFits(t *testing.T) {
	for _, c := range []struct {
		page, pages     int
		role            scheduler.Role
		in, out, blocks int // blocks 0: the request fits
	}{
		{1, 100, scheduler.Aggregated, 93, 50, 0}, // the output is shortened
		{1, 100, scheduler.Aggregated, 94, 1, 101},
		{1, 100, scheduler.Prefill, 93, 60, 0},
		{16, 4, scheduler.Aggregated, 47, 4, 0},
		{16, 4, scheduler.Aggregated, 48, 4, 5},
		{16, 4, scheduler.Decode, 60, 5, 5},
		{4, 4, scheduler.Aggregated, 9, 5, 0},
		{4, 4, scheduler.Aggregated, 10, 5, 5},
	} {
		config := config(c.page, c.pages)
		config.Role = c.role
		err := Fits(config, c.in, c.out)
		switch {
		case c.blocks == 0 && err != nil:
			t.Errorf("%+v: %v, want it to fit", c, err)
		case c.blocks > 0 && (err == nil || err.Blocks != c.blocks):
			t.Errorf("%+v: %v, want it to need %d blocks", c, err, c.blocks)
		}
	}
}

// A request that may need more than the pool with its drafts fits. If the pool is too small when the request runs,
// the request is aborted and all its memory is released.
func TestDraftsOutgrow(t *testing.T) {
	for _, c := range []struct {
		page, pages, in, out int
		aborted              bool
	}{
		{1, 90, 64, 22, false}, {1, 90, 64, 24, true}, {1, 90, 64, 1, false}, {1, 90, 64, 500, true}, {16, 8, 100, 9, false}, {16, 10, 100, 31, false},
	} {
		config := config(c.page, c.pages)
		config.Speculation = speculate(scheduler.ByHead, 1, 1)
		if err := Fits(config, c.in, c.out); err != nil {
			t.Errorf("%+v: %v, want it to fit", c, err)
		}
		core, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		core.Submit(&sim.Request{InputTokens: c.in, OutputTokens: c.out, Prompt: config.Tree.Add(make([]uint64, c.in), c.in)})
		var p scheduler.Pass
		aborted := false
		for now := sim.Time(0); core.Load() > 0; now = p.End {
			if err := core.Step(now, now, &p); err != nil {
				t.Fatalf("%+v: %v", c, err)
			}
			if len(p.Aborted) > 0 {
				aborted = true
				if x := p.Aborted[0]; x.Tokens < 1 || x.Tokens >= c.out || x.Last > now {
					t.Errorf("%+v: aborted %+v at %v", c, x, now)
				}
			}
		}
		if aborted != c.aborted || core.pages.free+core.pages.tree.Pages*core.PageTokens != core.pages.pool {
			t.Errorf("%+v: aborted is %v, want %v; %d of %d tokens are free", c, aborted, c.aborted, core.pages.free, core.pages.pool)
		}
	}
}

// keepBusy keeps the given number of requests with common prefixes on a core; each call of step runs a pass.
func keepBusy(t testing.TB, core *Core, inFlight int, each func(p *scheduler.Pass)) (step func()) {
	rng := rand.New(rand.NewPCG(1, 2))
	var requests []*sim.Request
	for i := range 3000 {
		ids := make([]uint64, 5)
		for k := range ids {
			ids[k] = uint64(i%16 + 16*k)
			if k >= len(ids)/2 {
				ids[k] = uint64(1<<20 + i*len(ids) + k)
			}
		}
		in := 1 + rng.IntN(5*4*core.PageTokens)
		requests = append(requests, &sim.Request{ID: sim.RequestID(i), InputTokens: in, OutputTokens: 1 + rng.IntN(40), Prompt: core.Tree.Add(ids, in)})
	}
	var p scheduler.Pass
	next, now := 0, sim.Time(0)
	return func() {
		for core.Load() < inFlight {
			core.Submit(requests[next%len(requests)])
			next++
		}
		if err := core.Step(now, now, &p); err != nil {
			t.Fatal(err)
		}
		now = p.End
		core.ReportIdle(&p)
		each(&p)
	}
}

// After warm-up, no kind of pass allocates memory.
func TestNoAllocations(t *testing.T) {
	if invariant.Enabled {
		t.Skip("the checks of invariants allocate")
	}
	for _, overlap := range []bool{true, false} {
		for i, capture := range []scheduler.Capture{scheduler.CaptureNone, scheduler.CaptureResidency, scheduler.CaptureResidency, scheduler.CaptureResidency, scheduler.CaptureNone} {
			c := config(16, 400)
			switch i {
			case 2:
				c.Speculation = speculate(scheduler.ByHead, 1, 0.5)
			case 3:
				c.HiCache = hostMemory(&c, 0.7, WriteThrough)
			case 4:
				c.HiCache = hostMemory(&c, 0.7, WriteBack)
			}
			c.Capture, c.Overlap, c.Conservativeness, c.ClipNewTokens = capture, overlap, 0, 1
			preempted, evicted := 0, 0
			step := keepBusy(t, mustBuild(t, c), 60, func(p *scheduler.Pass) {
				preempted += p.Preempted
				evicted += len(p.KV)
			})
			for range 9000 {
				step()
			}
			preempted = 0
			if n := testing.AllocsPerRun(2000, step); n > 0 {
				t.Errorf("%v allocations per pass, want none", n)
			}
			if preempted == 0 || capture == scheduler.CaptureResidency && evicted == 0 {
				t.Errorf("%d retractions, %d changes of residency; want some", preempted, evicted)
			}
		}
	}
}

// The recorded residency always equals the cached pages of prompt nodes in the tree.
func TestResidency(t *testing.T) {
	for i, page := range []int{1, 16, 1, 16, 16} {
		c := config(page, 2400/page)
		if i == 2 || i == 3 {
			c.Speculation = speculate(scheduler.ByHead, 1, 0.5)
		}
		c.Capture, c.ChunkTokens, c.LogInterval = scheduler.CaptureResidency, 64, 1
		if i == 4 {
			c.HiCache = hostMemory(&c, 0.7, WriteThroughSelective)
		}
		core := mustBuild(t, c)
		resident := make(map[prompt.NodeID]int32)
		changes, shrunk := 0, 0
		step := keepBusy(t, core, 30, func(p *scheduler.Pass) {
			for _, k := range p.KV {
				changes++
				if k.Blocks < resident[k.Node] {
					shrunk++
				}
				if resident[k.Node] = k.Blocks; k.Blocks == 0 {
					delete(resident, k.Node)
				}
			}
			want := core.residentNodes()
			if len(want) != len(resident) {
				t.Fatalf("%d prompt nodes are cached, %d were told of", len(want), len(resident))
			}
			for n, blocks := range want {
				if resident[n] != blocks {
					t.Fatalf("node %d has %d pages cached, %d were told of", n, blocks, resident[n])
				}
			}
		})
		for range 3000 {
			step()
		}
		if changes < 500 || shrunk < 100 {
			t.Errorf("%d changes, %d of them fewer pages, want more", changes, shrunk)
		}
	}
}

// residentNodes counts the cached pages of each prompt node, page by page.
func (c *Core) residentNodes() map[prompt.NodeID]int32 {
	count := make(map[prompt.NodeID]int32)
	seen := make(map[head]bool)
	for i, n := range c.pages.tree.All() {
		if n.Seq.Seed > 0 || c.pages.tree.IsAway(i) {
			continue
		}
		for k := n.From; k < min(n.To, n.Seq.Full); k++ {
			h := head{n.Seq.Nodes[k/c.pages.tree.PerNode], k % c.pages.tree.PerNode}
			if !seen[h] {
				count[h.node]++
			}
			seen[h] = true
		}
	}
	return count
}
