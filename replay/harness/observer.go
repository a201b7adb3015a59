package harness

import (
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Observer receives the events of a replay, for files with more details than a report. The arguments of each method
// belong to the replay and are valid only during the call.
//
// Arrivals and placements are ordered by time. Passes of one worker are also ordered by time. Each pass is reported
// at its end. Passes of different workers may be out of order, because independent workers may be replayed one after
// the other.
type Observer interface {
	// Arrived reports a request that enters the cluster.
	Arrived(q *sim.Request, at sim.Time)
	// Routed reports a request that is placed on a worker of a stage.
	Routed(stage scheduler.Role, at sim.Time, p *router.Placement)
	// Handoff reports a transfer of a KV cache, from its start on the prefill worker until it reaches the decode
	// stage.
	Handoff(id sim.RequestID, from, to sim.Time)
	// Left reports a request that leaves its worker, or a queue for a worker, without its last token.
	Left(d *Departure)
	// Pass reports a pass or a run of passes, with Detail. In real time, the instants of p are the real start and
	// end.
	Pass(stage scheduler.Role, w sim.WorkerID, p *scheduler.Pass)
}

// Departure is a request that leaves its worker without its last token. A request with the Outcome Unfinished will
// enter the cluster again.
type Departure struct {
	Request sim.RequestID
	Stage   scheduler.Role
	Worker  sim.WorkerID // collector.Nowhere if the request was on no worker
	At      sim.Time
	Outcome collector.Outcome
	Keeps   bool     // the request keeps its gained tokens; if false, these tokens are discarded
	Gained  int      // tokens gained on this worker
	Last    sim.Time // instant of the latest of these tokens, if any
}

// NoObserver is an Observer that does nothing. Observers embed NoObserver for the events that they ignore.
type NoObserver struct{}

// Arrived does nothing.
func (NoObserver) Arrived(*sim.Request, sim.Time) {}

// Routed does nothing.
func (NoObserver) Routed(scheduler.Role, sim.Time, *router.Placement) {}

// Handoff does nothing.
func (NoObserver) Handoff(sim.RequestID, sim.Time, sim.Time) {}

// Left does nothing.
func (NoObserver) Left(*Departure) {}

// Pass does nothing.
func (NoObserver) Pass(scheduler.Role, sim.WorkerID, *scheduler.Pass) {}

// PerWorker is a value of an observer for each worker of each stage.
type PerWorker[T any] [2][]T

// At returns a pointer to the value of a worker, which is initially the zero value.
func (all *PerWorker[T]) At(stage scheduler.Role, w sim.WorkerID) *T {
	list := &all[stage.Stage()]
	if missing := int(w) + 1 - len(*list); missing > 0 {
		*list = append(*list, make([]T, missing)...)
	}
	return &(*list)[w]
}
