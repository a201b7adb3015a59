package plan

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/sim"
)

// drawSessions returns a workload of sessions of up to three turns, in random order of time.
func drawSessions(rng *rand.Rand, n int) *loadgen.Workload {
	w := &loadgen.Workload{Classes: []string{"", "x"}}
	for s := range n {
		first := int32(len(w.Turns))
		turns := 1 + rng.IntN(3)
		for k := range turns {
			next := int32(-1)
			if k+1 < turns {
				next = int32(len(w.Turns)) + 1
			}
			w.Turns = append(w.Turns, loadgen.Turn{
				Session: int32(s), Index: int32(k), Next: next, Line: int32(len(w.Turns)) + 1,
				Input: int32(1 + rng.IntN(3000)), Output: int32(1 + rng.IntN(500)),
			})
			w.Priorities = append(w.Priorities, int32(len(w.Turns)))
			w.ClassesOf = append(w.ClassesOf, int32(s%2))
		}
		w.Sessions = append(w.Sessions, loadgen.Session{First: first, Turns: int32(turns), Arrival: sim.Time(rng.IntN(3_600_000)), HasArrival: true})
	}
	return w
}

// A stretch has all turns of the sessions in the busiest part of the time, unchanged.
func TestStretch(t *testing.T) {
	w := drawSessions(rand.New(rand.NewPCG(5, 5)), 4000)
	for part := 1; part <= 4; part++ {
		o := Stretch(w, part)
		low, high := o.Sessions[0].Arrival, o.Sessions[0].Arrival
		sum := int64(0)
		for i := range o.Sessions {
			s := &o.Sessions[i]
			low, high = min(low, s.Arrival), max(high, s.Arrival)
			turn, count := s.First, int32(0)
			for ; turn >= 0; turn = o.Turns[turn].Next {
				x := &o.Turns[turn]
				if was := w.Turns[x.Line-1]; x.Session != int32(i) || x.Index != count || x.Input != was.Input || o.Priorities[turn] != x.Line || o.ClassesOf[turn] != w.ClassesOf[x.Line-1] {
					t.Fatalf("part %d, session %d: turn %+v was %+v", part, i, x, was)
				}
				sum += int64(x.Input) + int64(x.Output)
				count++
			}
			if count != s.Turns {
				t.Fatalf("part %d: session %d has %d turns, want %d", part, i, count, s.Turns)
			}
		}
		starts := make([]sim.Time, 0, len(w.Sessions))
		for i := range w.Sessions {
			starts = append(starts, w.Sessions[i].Arrival)
		}
		span := (slices.Max(starts) - slices.Min(starts)) / sim.Time(int(1)<<part)
		if high-low >= span {
			t.Errorf("part %d: %v ms long, want less than %v", part, high-low, span)
		}
		for _, start := range starts {
			other := int64(0)
			for i := range w.Turns {
				if at := w.Sessions[w.Turns[i].Session].Arrival; at >= start && at < start+span {
					other += int64(w.Turns[i].Input) + int64(w.Turns[i].Output)
				}
			}
			if other > sum {
				t.Fatalf("part %d: %d tokens, from %v on there are %d", part, sum, start, other)
			}
		}
	}
	if o := Stretch(w, 6); o != w {
		t.Errorf("a stretch of fewer than %d sessions stands for nothing", leastStretch)
	}
}
