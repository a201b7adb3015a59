package vllm_test

import (
	"fmt"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/vllm"
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
