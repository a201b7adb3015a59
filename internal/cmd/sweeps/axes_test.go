package sweeps

import (
	"testing"

	"github.com/replay-llm/replay/plan"
)

// The x axis of the chart is the axis with the most numbers. Another axis sets the colors.
func TestChooseAxes(t *testing.T) {
	router := plan.Axis{Name: "router", Values: []string{"kv", "random", "p2c", "session"}}
	workers := plan.Axis{Name: "workers", Values: []string{"1", "2", "4"}}
	speedup := plan.Axis{Name: "speedup", Values: []string{"0.5", "1", "2", "4"}}
	two := plan.Axis{Name: "tp", Values: []string{"1", "2"}}
	for _, c := range []struct {
		axes       []plan.Axis
		across, by string
	}{
		{nil, "output_throughput_tok_s", ""},
		{[]plan.Axis{router}, "output_throughput_tok_s", "router"},
		{[]plan.Axis{router, two}, "output_throughput_tok_s", "router"},
		{[]plan.Axis{router, workers}, "workers", "router"},
		{[]plan.Axis{workers, speedup, router}, "speedup", "workers"},
	} {
		if across, by := chooseAxes(&plan.Grid{Axes: c.axes}); across != c.across || by != c.by {
			t.Errorf("%v: %s by %s, want %s by %s", c.axes, across, by, c.across, c.by)
		}
	}
}
