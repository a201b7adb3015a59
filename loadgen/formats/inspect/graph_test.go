package inspect

import (
	"testing"

	"github.com/replay-llm/replay/loadgen/formats"
)

// A diamond and a chain of one more: four wait, one of them for two; two wait for the first, and
// the longest chain has four.
func TestGraph(t *testing.T) {
	var g Graph
	for _, r := range []formats.Record{
		{Name: "a"}, {Name: "b", After: []formats.Edge{{Name: "a"}}}, {Name: "c", After: []formats.Edge{{Name: "a"}}},
		{Name: "d", After: []formats.Edge{{Name: "b"}, {Name: "c"}}}, {Name: "e", After: []formats.Edge{{Name: "d"}}},
	} {
		g.add(&r)
	}
	if g.Waiting != 4 || g.Joins != 1 || g.Widest != 2 || g.Deepest != 4 {
		t.Errorf("%+v, want 4 that wait, 1 join, 2 at most, and 4 in a chain", g)
	}
}
