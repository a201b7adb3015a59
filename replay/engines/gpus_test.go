package engines

import (
	"testing"

	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler/timing"
)

// TestRent checks that the cost of a worker is the price of a GPU times its number of GPUs, for each source of the
// price.
func TestRent(t *testing.T) {
	e := engineargs.Default()
	e.PassTimes = timing.ParseSource("roofline:h100/llama-3.1-70b?tp=4")
	k := Kind{Engine: e, Count: 3}
	for _, c := range []struct{ each, want float64 }{{0, 10}, {3, 12}} {
		if got, err := k.Rent(c.each); err != nil || got != (Rent{GPUs: 4, PerHour: c.want}) {
			t.Errorf("at %v a GPU: %+v, %v, want 4 GPUs and %v an hour", c.each, got, err, c.want)
		}
	}
	top := Topology{Pools: []Pool{Mix([]Kind{k, {Engine: engineargs.Default(), Count: 1}})}}
	if got, err := top.GPUs(); err != nil || got.Count != 13 || got.Price != 0 {
		t.Errorf("with a worker without a price: %+v, %v, want 13 GPUs and no price", got, err)
	}
}
