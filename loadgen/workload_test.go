package loadgen_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	. "github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/registry"
)

const day = "day.jsonl"

func mustRead(t *testing.T, text string) *Workload {
	t.Helper()
	w, err := registry.Read(strings.NewReader(text), day, formats.Options{Format: formats.Mooncake, TraceBlock: 64})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return w
}

// dump returns a workload as text with a line per turn, in file order.
func dump(w *Workload) string {
	var b strings.Builder
	for _, t := range w.Turns {
		s := w.Sessions[t.Session]
		fmt.Fprintf(&b, "%d %s/%d in=%d out=%d ids=%v", t.Line, w.SessionID(int(t.Session)), t.Index, t.Input, t.Output, t.IDs)
		switch {
		case t.Index > 0:
			fmt.Fprintf(&b, " delay=%v", float64(t.Delay))
		case s.HasArrival:
			fmt.Fprintf(&b, " at=%v", float64(s.Arrival))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// checkLinks checks the invariants of a workload.
func checkLinks(t testing.TB, w *Workload) {
	t.Helper()
	turns := 0
	for i, s := range w.Sessions {
		k := int32(0)
		for n := s.First; n >= 0; n = w.Turns[n].Next {
			turn := w.Turns[n]
			if turn.Session != int32(i) || turn.Index != k {
				t.Fatalf("turn %d is %d/%d, want %d/%d", n, turn.Session, turn.Index, i, k)
			}
			if !w.Synthetic && int(turn.Input) > len(turn.IDs)*w.TraceBlock {
				t.Fatalf("turn %d: %d tokens in %d ids of %d", n, turn.Input, len(turn.IDs), w.TraceBlock)
			}
			if turn.Input < 0 || turn.Output < 0 || math.IsInf(float64(turn.Delay), 0) || math.IsNaN(float64(turn.Delay)) || turn.Delay < 0 || k == 0 && turn.Delay != 0 {
				t.Fatalf("turn %d: input %d, output %d, delay %v", n, turn.Input, turn.Output, turn.Delay)
			}
			k++
		}
		if k != s.Turns || k == 0 {
			t.Fatalf("session %d has %d turns, says %d", i, k, s.Turns)
		}
		turns += int(k)
	}
	if turns != len(w.Turns) {
		t.Fatalf("%d turns in sessions, %d in all", turns, len(w.Turns))
	}
}
