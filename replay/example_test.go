package replay_test

import (
	"context"
	"fmt"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/sim"
)

// A planner reads the cluster every 500 ms, and adds a worker while the inter-token latency is too high.
func ExampleSpec_Steps() {
	spec := replay.Spec{
		Synthetic: loadgen.Synthetic{Requests: 90, Input: 1500, Output: 30, Interval: 50, Turns: 1},
		Speedup:   1, Topology: replay.Topology{Pools: replay.OnePool(engineargs.Default(), 1)},
	}
	ctx := context.Background()
	s, err := spec.Steps(ctx, replay.Streams{})
	if err != nil {
		fmt.Println(err)
		return
	}
	workers := 1
	for at := 500.0; ; at += 500 {
		state, err := s.AdvanceTo(ctx, sim.Time(at))
		if err != nil {
			fmt.Println(err)
			return
		}
		seen := s.Traffic()
		fmt.Printf("%4.0f ms: %d workers, %d passes, %2d requests finished, mean ITL %.0f ms\n",
			at, state.Decode.Active, len(state.Decode.Passes), seen.Requests, float64(seen.MeanITL))
		if state.Done {
			break
		}
		if seen.MeanITL > 15 && workers < 3 {
			workers++
			if err := s.Scale(replay.KeepSize, workers); err != nil {
				fmt.Println(err)
				return
			}
		}
	}
	result, err := s.Finish()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d requests in %.0f ms\n", result.Report.Completed, result.Report.DurationMS)
	// Output:
	// 500 ms: 1 workers, 16 passes,  0 requests finished, mean ITL 0 ms
	// 1000 ms: 1 workers, 15 passes,  1 requests finished, mean ITL 33 ms
	// 1500 ms: 2 workers, 89 passes, 23 requests finished, mean ITL 20 ms
	// 2000 ms: 3 workers, 169 passes, 11 requests finished, mean ITL 8 ms
	// 2500 ms: 3 workers, 188 passes, 10 requests finished, mean ITL 7 ms
	// 3000 ms: 3 workers, 187 passes, 10 requests finished, mean ITL 7 ms
	// 3500 ms: 3 workers, 186 passes, 10 requests finished, mean ITL 7 ms
	// 4000 ms: 3 workers, 188 passes, 10 requests finished, mean ITL 7 ms
	// 4500 ms: 3 workers, 187 passes, 10 requests finished, mean ITL 7 ms
	// 5000 ms: 3 workers, 59 passes,  5 requests finished, mean ITL 6 ms
	// 90 requests in 4668 ms
}
