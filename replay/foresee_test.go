package replay_test

import (
	"context"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/sim"
)

// TestPerfectIsInTime checks that a perfect autoscaler always has ready workers for the requests of a replay with all
// workers. The autoscaler never has more workers than the maximum load requires until a worker requested at the next
// tick is ready.
func TestPerfectIsInTime(t *testing.T) {
	const most, inFlight = 40, 3
	a := autoscale.Default(autoscale.Foreknown)
	a.Max, a.Load.InFlight, a.Sync, a.Startup.Image.Mean = most, inFlight, 500, 1200
	spec := replay.Spec{
		Trace:   &replay.Trace{Path: "../testdata/traces/chat-hour.jsonl", Detect: true},
		Speedup: 16, Topology: replay.Topology{Pools: replay.OnePool(engineargs.Default(), most)},
	}
	calm, err := spec.Run(context.Background(), replay.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	spec.Autoscale = &a
	got, err := spec.Run(context.Background(), replay.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	if n, want := got.Report.Completed, calm.Report.Completed; n != want {
		t.Fatalf("%d requests are complete, want %d", n, want)
	}
	var stays [][2]sim.Time
	for _, r := range calm.Collector.Requests() {
		stays = append(stays, [2]sim.Time{r.Arrival, r.Last})
	}
	load := autoscale.NewForeseen(stays)
	sizes := got.Scaling[0].Sizes
	if len(sizes) < 10 {
		t.Fatalf("%d sizes, want a number of workers that changes", len(sizes))
	}
	for i, z := range sizes[:len(sizes)-1] {
		now, next := z.At, sizes[i+1].At
		if need := min((load.Most(now, next-0.001)+inFlight-1)/inFlight, most); z.Ready < need {
			t.Errorf("%d workers are ready from %v to %v ms, want %d", z.Ready, float64(now), float64(next), need)
		}
		if need := max((load.Most(now-500, now+1700)+inFlight-1)/inFlight, 1); z.Ready+z.Starting > need {
			t.Errorf("%d workers are wanted from %v ms on, want %d", z.Ready+z.Starting, float64(now), need)
		}
	}
	a.Load = &autoscale.Load{}
	if _, err := spec.Run(context.Background(), replay.Streams{}); err == nil || !strings.Contains(err.Error(), "use in_flight") {
		t.Errorf("without in_flight: %v", err)
	}
	a.Load, spec.Mode, spec.MaxInFlight = &autoscale.Load{InFlight: 2}, loadgen.Concurrency, 5
	if _, err := spec.Run(context.Background(), replay.Streams{}); err == nil || !strings.Contains(err.Error(), "closed loop") {
		t.Errorf("in closed loop: %v", err)
	}
}
