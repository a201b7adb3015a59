package calibrate

import (
	"fmt"
	"slices"

	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/timing"
)

// What a pass takes more that is launched in pieces, and beyond that one that is launched without graphs.
const (
	piecewiseField = "piecewise_base_s"
	eagerField     = "eager_base_s"
)

// piecewiseUntil is the minor release of vLLM 0 before which passes that only decode were no whole graph.
const piecewiseUntil = 11

// readGraphs reads which graphs are captured, and which passes are run as them.
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
			s.refusals = append(s.refusals, fmt.Sprintf("cudagraph_mode is %v, want one of %v", mode, timing.GraphModes()))
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

// setLaunches sets what launches take at the start of a search, by what captures graphs of f
// and what does not, for the kinds of passes that the server can have beside others.
func (s *Settings) setLaunches(p *timing.Parameters, f hardware.Fit) {
	base := func(graphs string) float64 {
		f.Graphs = graphs
		pass := f.Pass()
		return pass.Base
	}
	pieces := 0.0
	if s.GraphMode == "PIECEWISE" {
		pieces = base("piecewise") - base("full")
	}
	p.GraphMode, p.PiecewiseBase = s.GraphMode, pieces
	// Without graphs for prompts, those passes are told from others by mixed_base_s.
	if n := len(s.Graphs); n == 0 || s.MaxBatchedTokens > s.Graphs[n-1] && s.GraphMode != "FULL_DECODE_ONLY" {
		p.EagerBase = base("none") - base("full") - pieces
	}
}

// isConstant reports whether a parameter is part of every pass of a server that begins at start.
func isConstant(name string, start *timing.Parameters) bool {
	return name == piecewiseField || name == eagerField && len(start.Graphs) == 0
}

// leastOfKind is the share of the time of passes with prompts from which on a way to launch them is told
// from the others.
const leastOfKind = 0.1

// tellsLaunches reports whether passes with prompts were launched in more than one way. Where all
// of them are alike, what a launch takes is not told from what prompts take.
func (s *search) tellsLaunches() bool {
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

// KindShare is the share of the time of passes of a kind.
type KindShare struct {
	Kind  string  `json:"kind"`
	Share float64 `json:"share"`
}

// sharesOfKinds returns what part of the time of passes those of each kind are, without the kinds
// that there are none of.
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
