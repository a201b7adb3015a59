package inspect

import (
	"testing"

	"github.com/replay-llm/replay/loadgen/formats"
)

// The graph is a diamond (a, b, c, d) with one more request (e) after it. Four requests wait, and d waits for two
// requests. Two requests wait for a. The longest chain has four requests.
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
