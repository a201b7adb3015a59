package vllm_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/vllm/ranks"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// hosts returns host memories of different sizes and bandwidths, for blocks of four tokens of 1 MiB.
func hosts() map[string]blocks.Offload {
	all := make(map[string]blocks.Offload)
	for _, room := range []int{3, 400} {
		for _, gbps := range []float64{0, 0.05, 10} {
			all[fmt.Sprintf("%d blocks at %v GB/s", room, gbps)] = blocks.Offload{
				Blocks: room, BytesPerToken: 1 << 20, BatchBlocks: 2, ToHostGBPerSecond: gbps, ToGPUGBPerSecond: gbps,
			}
		}
	}
	return all
}

// With host memory, the core passes the suite, and requests can be canceled in any state.
func TestHostMemory(t *testing.T) {
	for name, host := range hosts() {
		if testing.Short() && host.ToGPUGBPerSecond != 0.05 {
			continue
		}
		for _, sync := range []bool{false, true} {
			make := func(s schedulertest.Setup) scheduler.Core {
				c := config(s, releases.Rules019())
				c.Offload, c.Rules.TwoInFlight, c.Capture = host, !sync, scheduler.CaptureEvents
				return build(t, c)
			}
			t.Run(fmt.Sprintf("%s sync %v", name, sync), func(t *testing.T) {
				schedulertest.Run(t, make)
				schedulertest.RunCancel(t, false, make)
			})
		}
	}
}

// With the SimpleCPUOffloadConnector of both releases, the core passes the suite too.
func TestSimpleHostMemory(t *testing.T) {
	for name, host := range hosts() {
		if testing.Short() && host.ToGPUGBPerSecond != 0.05 {
			continue
		}
		for _, finishes := range []bool{false, true} {
			make := func(s schedulertest.Setup) scheduler.Core {
				c := config(s, releases.Rules024())
				c.Offload, c.SimpleHost, c.RankedHost, c.Capture = host, true, finishes, scheduler.CaptureEvents
				return build(t, c)
			}
			t.Run(fmt.Sprintf("%s as 0.33 %v", name, finishes), func(t *testing.T) {
				schedulertest.Run(t, make)
				schedulertest.RunCancel(t, false, make)
			})
		}
	}
}

// Two prompts of 20 blocks alternate on a device with 25 blocks. Without host memory, each prompt evicts the other.
// With host memory, from the second use on, missing blocks of a prompt are loaded in the time of the transfer, and
// only its last token is computed.
func TestHostMemoryBringsReuse(t *testing.T) {
	tree := prompt.NewTree(4, 4, prompt.Options{})
	cfg := config(schedulertest.Setup{Tree: tree, BlockTokens: 4, Blocks: 26, MaxSeqs: 4, MaxBatchedTokens: 256}, releases.Rules019())
	cfg.Offload = blocks.Offload{Blocks: 100, BytesPerToken: 1e6, BatchBlocks: 4, ToHostGBPerSecond: 1, ToGPUGBPerSecond: 1}
	var arrivals []schedulertest.Arrival
	for turn := range 6 {
		ids := make([]uint64, 20)
		for i := range ids {
			ids[i] = uint64(100*(turn%2) + i)
		}
		arrivals = append(arrivals, schedulertest.Arrival{At: sim.Time(1000 * turn), Request: request(tree, turn, 80, 2+turn/12*16, ids...)})
	}
	for _, s := range passes(t, build(t, cfg), arrivals) {
		for _, a := range s.Admitted {
			if a.Request < 2 {
				continue
			}
			// At most five blocks of its prompt are still on the device.
			if a.Reused != 79 || a.FromHost < 59 {
				t.Errorf("request %d reuses %d tokens, %d from the host, want 79, at least 59", a.Request, a.Reused, a.FromHost)
			}
			want := sim.Time(1000*int(a.Request)) + sim.Time(a.FromHost+1) // 4 ms per block of 4 tokens
			if s.Start < want || s.Start > want+2 {
				t.Errorf("request %d is admitted at %v, want %v to %v, after a nap or two", a.Request, s.Start, want, want+2)
			}
		}
	}
}

// Equal passes run together during a transfer, up to its end. A prompt is copied for 80 ms while its request decodes,
// and single passes end at the same instants.
func TestRunsWhileBlocksAreCopied(t *testing.T) {
	t.Run("offloading", func(t *testing.T) { compareRuns(t, false) })
	t.Run("simple", func(t *testing.T) { compareRuns(t, true) })
}

func compareRuns(t *testing.T, simple bool) {
	tree := prompt.NewTree(4, 4, prompt.Options{})
	cfg := config(schedulertest.Setup{Tree: tree, BlockTokens: 4, Blocks: 400, MaxSeqs: 4, MaxBatchedTokens: 256}, releases.Rules033())
	cfg.RankedHost, cfg.SimpleHost = true, simple
	cfg.Offload = blocks.Offload{Blocks: 100, BytesPerToken: 1e6, BatchBlocks: 4, ToHostGBPerSecond: 1, ToGPUGBPerSecond: 1}
	ids := make([]uint64, 20)
	for i := range ids {
		ids[i] = uint64(i)
	}
	ends, most := map[bool][]sim.Time{}, 0
	for _, single := range []bool{false, true} {
		core, p, now := build(t, cfg), new(scheduler.Pass), sim.Time(0)
		core.Submit(request(tree, 0, 80, 200, ids...))
		for core.Load() > 0 {
			until := now + 1e6
			if single {
				until = now
			}
			if err := core.Step(now, until, p); err != nil {
				t.Fatal(err)
			}
			if now < 80 {
				most = max(most, p.Count)
			}
			if len(p.Ends) > 0 {
				ends[single] = append(ends[single], p.Ends...)
			} else {
				ends[single] = append(ends[single], p.End)
			}
			now = p.End
		}
	}
	if most < 2 {
		t.Errorf("at most %d passes are taken at once during the transfer, want several", most)
	}
	if !slices.Equal(ends[true], ends[false]) {
		t.Errorf("passes end at %v, one at a time at %v", ends[false], ends[true])
	}
}

// Ranks in lockstep with host memory wait for loads: the two prompts of a rank evict each other.
func TestHostMemoryOfRanks(t *testing.T) {
	tree := prompt.NewTree(4, 4, prompt.Options{})
	cfg := config(schedulertest.Setup{Tree: tree, BlockTokens: 4, Blocks: 26, MaxSeqs: 4, MaxBatchedTokens: 256}, releases.Rules033())
	cfg.RankedHost = true
	cfg.Offload = blocks.Offload{Blocks: 100, BytesPerToken: 1e6, BatchBlocks: 4, ToHostGBPerSecond: 1, ToGPUGBPerSecond: 1}
	core, err := ranks.New(cfg, 2, releases.RanksOf("vllm-0.33"))
	if err != nil {
		t.Fatal(err)
	}
	var p scheduler.Pass
	loaded, now := 0, sim.Time(0)
	for turn := range 16 {
		ids := make([]uint64, 20)
		for i := range ids {
			ids[i] = uint64(100*(turn/2%2+turn/12*turn) + i)
		}
		core.Submit(request(tree, turn, 80, 2+turn/12*16, ids...))
		if turn%2 == 0 && turn < 12 {
			continue // only one rank has requests in the last turns, and the other rank runs dummy passes
		}
		for steps := 0; core.Load() > 0; steps++ {
			if err := core.Step(now, now, &p); err != nil || steps > 1000 {
				t.Fatalf("step %d at %v: %v", steps, now, err)
			}
			for _, a := range p.Admitted {
				loaded += a.FromHost
			}
			now = p.End
		}
		now += 1000
	}
	if loaded < 8*50 {
		t.Errorf("%d tokens were loaded, want at least 400", loaded)
	}
}
