package loadgen

import (
	"slices"
	"testing"
)

// A class in the trace is kept if a rule has its name. Otherwise the first rule with a true condition applies, or the
// class in the trace is kept. A priority of a class replaces the priority in the trace.
func TestClassify(t *testing.T) {
	w := &Workload{
		Name: "t", Sessions: []Session{{ID: "a", Turns: 2}, {ID: "b", First: 2, Turns: 3}},
		Turns: []Turn{
			{Input: 10, IDs: []uint64{7}}, {Index: 1, Input: 90}, {Session: 1, Input: 90}, {Session: 1, Index: 1, Input: 10}, {Session: 1, Index: 2, Input: 20, Output: 5},
		},
		Classes: []string{DefaultClass, "chat", "odd"}, ClassesOf: []int32{0, 1, 0, 2, 0},
	}
	err := w.Classify([]Class{
		{Name: "chat", Priority: -1, Ranked: true}, {Name: "long", When: "request.input_tokens > mean(request.input_tokens)"},
		{Name: "last", When: `request.session_id == "b" && request.turn + 1 == request.turns`, Priority: 4, Ranked: true},
		{Name: "group", When: "request.prefix == 7"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for turn := range w.Turns {
		got = append(got, w.Classes[w.ClassOf(int32(turn))])
	}
	if want := []string{"group", "chat", "long", "odd", "last"}; !slices.Equal(got, want) {
		t.Errorf("classes %v, want %v", got, want)
	}
	if want := []int32{0, -1, 0, 0, 4}; !slices.Equal(w.Priorities, want) {
		t.Errorf("priorities %v, want %v", w.Priorities, want)
	}
	if err := w.Classify([]Class{{Name: "nobody"}}); err == nil {
		t.Error("a class of which nobody can be is no error")
	}
	if w := new(Workload); w.ClassOf(3) != 0 {
		t.Error("a workload without classes has some")
	}
}
