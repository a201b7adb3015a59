package measured

import (
	"fmt"
	"slices"

	"github.com/replay-llm/replay/scheduler/timing"
)

// piecewiseUntil is the first minor release of vLLM 0 that runs passes with only decodes as a full graph.
const piecewiseUntil = 11

// readGraphs reads the sizes of captured graphs and the mode of graphs.
func (s *Settings) readGraphs(t tree) {
	switch mode := t.find("cudagraph_mode").(type) {
	case nil:
		var major, minor int
		if n, _ := fmt.Sscanf(s.Version, "%d.%d", &major, &minor); n == 2 && major == 0 && minor < piecewiseUntil {
			s.GraphMode = "PIECEWISE"
		}
	default:
		var ok bool
		if s.GraphMode, ok = timing.NewGraphMode(fmt.Sprint(mode)); !ok {
			s.refusals = append(s.refusals, fmt.Sprintf("cudagraph_mode is %v, must be one of %v", mode, timing.GraphModes()))
		}
	}
	if t.truth("enforce_eager", false) || s.GraphMode == "NONE" {
		s.GraphMode = ""
		return
	}
	if sizes, ok := t.find("cudagraph_capture_sizes").([]any); ok {
		for _, v := range sizes {
			if n, ok := v.(float64); ok && n >= 1 {
				s.Graphs = append(s.Graphs, int(n))
			}
		}
		slices.Sort(s.Graphs)
		s.Graphs = slices.Compact(s.Graphs)
	}
	if len(s.Graphs) == 0 {
		s.Graphs = timing.DefaultGraphs(s.MaxSeqs)
	}
}
