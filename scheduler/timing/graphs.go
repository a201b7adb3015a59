package timing

import (
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
)

// Kind is how the host launches a pass. A pass with fewer parts captured as graphs takes longer to launch.
type Kind uint8

const (
	FullGraph Kind = iota // one graph
	Piecewise             // graphs of the pieces between attention operators
	Eager                 // no graph: kernel by kernel
)

// GraphMode is the kind of graph for passes that only decode and for passes with prompts, by the values of vLLM's
// cudagraph_mode. "" is FULL_AND_PIECEWISE.
type GraphMode string

// kindsOf returns the kinds of passes that only decode and of passes that also compute prompts.
func (m GraphMode) kindsOf() (decode, mixed Kind, ok bool) {
	switch m {
	case "", "FULL_AND_PIECEWISE":
		return FullGraph, Piecewise, true
	case "FULL":
		return FullGraph, FullGraph, true
	case "FULL_DECODE_ONLY":
		return FullGraph, Eager, true
	case "PIECEWISE":
		return Piecewise, Piecewise, true
	case "NONE":
		return Eager, Eager, true
	}
	return Eager, Eager, false
}

// GraphModes returns the names of all modes.
func GraphModes() []string {
	return []string{"FULL_AND_PIECEWISE", "FULL", "FULL_DECODE_ONLY", "PIECEWISE", "NONE"}
}

// KindOf returns how a pass is launched. A pass with more tokens than the largest captured graph is launched without
// a graph.
func (p *Parameters) KindOf(s *Step) Kind {
	n := len(p.Graphs)
	if n == 0 || s.Tokens > p.Graphs[n-1] {
		return Eager
	}
	decode, mixed, _ := p.GraphMode.kindsOf()
	if s.Mixed() {
		return mixed
	}
	return decode
}

// launchTime returns the additional time of a pass, in s, compared with a single graph.
func (p *Parameters) launchTime(s *Step) float64 {
	if p.PiecewiseBase == 0 && p.EagerBase == 0 {
		return 0
	}
	switch p.KindOf(s) {
	case Piecewise:
		return p.PiecewiseBase
	case Eager:
		return p.PiecewiseBase + p.EagerBase
	}
	return 0
}

// check returns an error for an unknown mode.
func (m GraphMode) check() error {
	if _, _, ok := m.kindsOf(); !ok {
		return excerpt.Errorf("cudagraph_mode is %q, must be one of %s", string(m), strings.Join(GraphModes(), ", "))
	}
	return nil
}

// NewGraphMode parses the name of a mode. vLLM writes it alone, after the name of its type, or as numbers.
// NewGraphMode returns false for an unknown name.
func NewGraphMode(name string) (GraphMode, bool) {
	name = strings.ToUpper(strings.Join(strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune(" ,[]()", r) }), ","))
	name = name[strings.LastIndex(name, ".")+1:]
	switch name {
	case "2,1":
		name = "FULL_AND_PIECEWISE"
	case "2,0":
		name = "FULL_DECODE_ONLY"
	case "2":
		name = "FULL"
	case "1":
		name = "PIECEWISE"
	case "0":
		name = "NONE"
	}
	return GraphMode(name), slices.Contains(GraphModes(), name)
}
