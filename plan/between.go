package plan

import (
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/sim"
)

// Between returns the sessions of a workload that begin at or after one time and before another time. The returned
// workload begins at the first time. The returned workload may have no sessions.
func Between(w *loadgen.Workload, from, to sim.Time) *loadgen.Workload {
	var kept []int32
	for i := range w.Sessions {
		if at := w.Sessions[i].Arrival; at >= from && at < to {
			kept = append(kept, int32(i))
		}
	}
	o := keepSessions(w, kept)
	for i := range o.Sessions {
		o.Sessions[i].Arrival -= from
	}
	return o
}

// Span returns the times at which the first and the last session of a workload begin; zeros without sessions.
func Span(w *loadgen.Workload) (first, last sim.Time) {
	for i := range w.Sessions {
		at := w.Sessions[i].Arrival
		if i == 0 {
			first, last = at, at
		}
		first, last = min(first, at), max(last, at)
	}
	return first, last
}
