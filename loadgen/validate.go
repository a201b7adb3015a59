package loadgen

import (
	"math"

	"github.com/replay-llm/replay/sim"
)

// checkWorkload checks that w can be replayed with a, in the order of sessions.
//
// For multi-turn and closed-loop workloads on disaggregated workers, it only checks that times are finite, because
// the reference accepts all other values.
func checkWorkload(w *Workload, a Admission, t times) error {
	if len(w.Sessions) == 0 {
		return &SyntaxError{Name: w.Name, Msg: "no requests"}
	}
	if w.Graph != nil {
		if err := checkGraph(w, a, t); err != nil {
			return err
		}
	}
	full := !a.Disaggregated || (a.Mode == Trace && !w.MultiTurn())
	for i := range w.Sessions {
		if err := validateStart(w, a, t, int32(i), full); err != nil {
			return err
		}
		for n := w.Sessions[i].First; n >= 0; n = w.Turns[n].Next {
			if err := validateTurn(w, t, n, full); err != nil {
				return err
			}
		}
	}
	return nil
}

func validateStart(w *Workload, a Admission, t times, i int32, full bool) error {
	s := &w.Sessions[i]
	if w.Graph != nil {
		return nil // each turn has an arrival
	}
	if !s.HasArrival {
		if full && a.Mode == Trace {
			return w.errorAt(s.First, "session %q has no timestamp, which trace mode needs", w.SessionID(int(i)))
		}
		return nil
	}
	if a.Mode == Concurrency {
		if full && !(isFinite(s.Arrival) && s.Arrival >= 0) {
			return w.errorAt(s.First, "timestamp is %v, must be >= 0 in concurrency mode", float64(s.Arrival))
		}
		return nil
	}
	if at := t.startOf(i); !isFinite(at) {
		return w.errorAt(s.First, "timestamp %v becomes %v after shift and speed-up, must be a finite instant", float64(s.Arrival), float64(at))
	}
	return nil
}

func validateTurn(w *Workload, t times, n int32, full bool) error {
	turn := &w.Turns[n]
	if d := t.delayBefore(n); !isFinite(d) || d < 0 {
		return w.errorAt(n, "delay is %v, must be finite and >= 0", float64(d))
	}
	if !full {
		return nil
	}
	if turn.Input <= 0 {
		if len(turn.IDs) == 0 && !w.Synthetic {
			return w.errorAt(n, "input_length is 0 because hash_ids is empty, must be > 0")
		}
		return w.errorAt(n, "input_length is %d, must be > 0", turn.Input)
	}
	if turn.Index == 0 && turn.Delay != 0 {
		return w.errorAt(n, "delay is %v on the first turn of a session, must be 0", float64(turn.Delay))
	}
	return nil
}

func isFinite(t sim.Time) bool {
	return !math.IsInf(float64(t), 0) && !math.IsNaN(float64(t))
}
