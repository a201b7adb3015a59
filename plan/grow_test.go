package plan

import (
	"math"
	"reflect"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/sim"
)

// A grown workload has more sessions in the same time, spread evenly. Copies share no private ids with their
// originals.
func TestGrow(t *testing.T) {
	w := &loadgen.Workload{}
	for i := range int32(1000) {
		w.Sessions = append(w.Sessions, loadgen.Session{First: i, Turns: 1, Arrival: sim.Time(10 * i)})
		w.Turns = append(w.Turns, loadgen.Turn{Session: i, Next: -1, Input: 100, Output: 5, IDs: []uint64{1, uint64(10 + i)}})
	}
	for _, factor := range []float64{0.3, 0.5, 1, 1.3, 2, 3.7} {
		grown := Grow(w, factor, 7)
		if !reflect.DeepEqual(grown, Grow(w, factor, 7)) {
			t.Errorf("growth %g differs from one call to the next", factor)
		}
		if got := float64(len(grown.Sessions)); math.Abs(got-1000*factor) > 1 || len(grown.Turns) != len(grown.Sessions) {
			t.Errorf("growth %g: %g sessions of 1000", factor, got)
		}
		quarters, ids := [4]int{}, map[uint64]int{}
		for i := range grown.Sessions {
			s := &grown.Sessions[i]
			if i > 0 && s.Arrival < grown.Sessions[i-1].Arrival || s.Arrival > 9990 {
				t.Fatalf("growth %g: session %d arrives at %v", factor, i, s.Arrival)
			}
			quarters[min(3, int(s.Arrival/2500))]++
			turn := &grown.Turns[s.First]
			if turn.Session != int32(i) || turn.IDs[0] != 1 {
				t.Fatalf("growth %g: session %d has turn %+v", factor, i, turn)
			}
			ids[turn.IDs[1]]++
		}
		for _, n := range quarters {
			if math.Abs(float64(n)-250*factor) > 2 {
				t.Errorf("growth %g: %v sessions by quarter", factor, quarters)
			}
		}
		if len(ids) != len(grown.Sessions) {
			t.Errorf("growth %g: %d private ids of %d sessions", factor, len(ids), len(grown.Sessions))
		}
	}
}
