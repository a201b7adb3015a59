package calibrate

import (
	"slices"

	"github.com/replay-llm/replay/scheduler/timing"
)

// isConstant reports whether a parameter is added to the time of every pass of a server with the parameters start.
func isConstant(name string, start *timing.Parameters) bool {
	return name == piecewiseField || name == eagerField && len(start.Graphs) == 0
}

// leastOfKind is the least share of the time of passes with prompts that must be launched in a different way.
const leastOfKind = 0.1

// separatesLaunches reports whether passes with prompts were launched in more than one way. If all of these passes are
// launched in the same way, the time of a launch cannot be separated from the time of prompts.
func (s *search) separatesLaunches() bool {
	var of [3]float64
	for _, t := range s.trials {
		for _, passes := range t.record.engines {
			for i := range passes {
				if pass := &passes[i]; pass.step.Mixed() {
					of[s.start.KindOf(&pass.step)] += pass.end - pass.start
				}
			}
		}
	}
	return max(of[0], of[1], of[2]) <= (1-leastOfKind)*(of[0]+of[1]+of[2])
}

// KindShare is the share of one kind of passes in the time of all passes.
type KindShare struct {
	Kind  string  `json:"kind"`
	Share float64 `json:"share"`
}

// sharesOfKinds returns the share of each kind of passes in the time of passes. sharesOfKinds omits kinds without
// passes.
func sharesOfKinds(p *timing.Parameters, records []*ledger) []KindShare {
	all := []KindShare{{Kind: "full graph"}, {Kind: "piecewise"}, {Kind: "eager"}}
	total := 0.0
	for _, record := range records {
		for _, passes := range record.engines {
			for i := range passes {
				lasts := passes[i].end - passes[i].start
				all[p.KindOf(&passes[i].step)].Share += lasts
				total += lasts
			}
		}
	}
	for i := range all {
		all[i].Share /= total
	}
	return slices.DeleteFunc(all, func(k KindShare) bool { return !(k.Share > 0) })
}

// piecewiseField is the additional time of a pass that is launched in pieces. eagerField is the further additional
// time of a pass that is launched without graphs.
const (
	piecewiseField = "piecewise_base_s"
	eagerField     = "eager_base_s"
)
