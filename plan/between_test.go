package plan

import (
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/sim"
)

// The hourly parts of a workload contain each session once, with all of its turns, at its time in the hour.
func TestBetweenDividesSessions(t *testing.T) {
	const hour sim.Time = 3600e3
	w := &loadgen.Workload{}
	for i := range int32(50) {
		w.Sessions = append(w.Sessions, loadgen.Session{Arrival: hour * sim.Time(i) / 10, First: 2 * i})
		w.Turns = append(w.Turns, loadgen.Turn{Session: i, Next: 2*i + 1, Input: i}, loadgen.Turn{Session: i, Next: -1, Input: i})
	}
	if first, last := Span(w); first != 0 || last != 4.9*hour {
		t.Errorf("from %v to %v, want 0 to %v", first, last, 4.9*hour)
	}
	seen := map[int32]int{}
	for from := sim.Time(0); from < 5*hour; from += hour {
		part := Between(w, from, from+hour)
		if len(part.Sessions) != 10 || len(part.Turns) != 20 {
			t.Errorf("from %v: %d sessions with %d turns, want 10 with 20", from, len(part.Sessions), len(part.Turns))
		}
		for i := range part.Turns {
			turn := &part.Turns[i]
			seen[turn.Input]++
			if at := part.Sessions[turn.Session].Arrival + from; at != hour*sim.Time(turn.Input)/10 {
				t.Errorf("session %d begins at %v", turn.Input, at)
			}
		}
	}
	for i := range int32(50) {
		if seen[i] != 2 {
			t.Errorf("session %d has %d turns, want 2", i, seen[i])
		}
	}
	if part := Between(w, 9*hour, 10*hour); len(part.Sessions) != 0 {
		t.Errorf("%d sessions after the end", len(part.Sessions))
	}
}
