package vllm_test

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// hosts returns host memories, large and small, fast and slow, for blocks of
// four tokens of 1 MiB.
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

// With host memory behind the blocks the core is still a scheduler, and
// requests can be taken out wherever they are.
func TestHostMemory(t *testing.T) {
	for name, host := range hosts() {
		if testing.Short() && host.ToGPUGBPerSecond != 0.05 {
			continue
		}
		for _, sync := range []bool{false, true} {
			make := func(s schedulertest.Setup) scheduler.Core {
				c := config(s, vllm.Rules019())
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

// Where nothing is ever evicted, nothing is fetched, and host memory changes no
// pass.
func TestHostMemoryUnneeded(t *testing.T) {
	for seed := range uint64(60) {
		d := draw(seed, vllm.Rules019())
		d.cfg.Blocks, d.cfg.Clock = 5000, second() // blocks being copied count as held, which other models read
		plain := passes(t, build(t, d.cfg), d.arrivals)
		d.cfg.Offload = blocks.Offload{Blocks: 5000, BytesPerToken: 1 << 20, BatchBlocks: 3, ToHostGBPerSecond: 1, ToGPUGBPerSecond: 1}
		got := passes(t, build(t, d.cfg), d.arrivals)
		for i := range plain {
			if !reflect.DeepEqual(got[i], plain[i]) {
				t.Fatalf("seed %d, pass %d:\n got %+v\nwant %+v", seed, i, got[i], plain[i])
			}
		}
	}
}

// Two prompts of 20 blocks take turns on a device for 25. Without host memory each
// evicts the other; with it, from the second turn on all but the last block of a
// prompt is fetched, in the time of its transfer.
func TestHostMemoryBringsReuse(t *testing.T) {
	tree := prompt.NewTree(4, 4, prompt.Options{})
	cfg := config(schedulertest.Setup{Tree: tree, BlockTokens: 4, Blocks: 26, MaxSeqs: 4, MaxBatchedTokens: 256}, vllm.Rules019())
	cfg.Offload = blocks.Offload{Blocks: 100, BytesPerToken: 1e6, BatchBlocks: 4, ToHostGBPerSecond: 1, ToGPUGBPerSecond: 1}
	var arrivals []schedulertest.Arrival
	for turn := range 6 {
		ids := make([]uint64, 20)
		for i := range ids {
			ids[i] = uint64(100*(turn%2) + i)
		}
		arrivals = append(arrivals, schedulertest.Arrival{At: sim.Time(1000 * turn), Request: request(tree, turn, 80, 2, ids...)})
	}
	for _, s := range passes(t, build(t, cfg), arrivals) {
		for _, a := range s.Admitted {
			if a.Request < 2 {
				continue
			}
			// Five blocks of its prompt are still on the device at most.
			if a.Reused != 76 || a.FromHost < 56 || a.FromHost > 76 {
				t.Errorf("request %d reuses %d tokens, %d from the host, want 76, at least 56", a.Request, a.Reused, a.FromHost)
			}
			want := sim.Time(1000*int(a.Request)) + sim.Time(a.FromHost) // 4 ms a block of 4 tokens
			if math.Abs(float64(s.Start-want)) > 1e-6 {
				t.Errorf("request %d is admitted at %v, want %v", a.Request, s.Start, want)
			}
		}
	}
}
