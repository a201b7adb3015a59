package harness

import (
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Observer is shown what happens in a replay, for files that hold more than a report. Its arguments belong to the
// replay and are valid during the call.
//
// Arrivals and placements come in the order of time. So do the passes of one worker, each when it is over. Passes of
// different workers may come in another order, since independent workers may be replayed one after the other.
type Observer interface {
	// Arrived shows a request that enters the cluster.
	Arrived(q *sim.Request, at sim.Time)
	// Routed shows a request that is given to a worker of a stage.
	Routed(stage scheduler.Role, at sim.Time, p *router.Placement)
	// Handoff shows a request with a KV cache that leaves the prefill worker at one
	// instant and reaches the decode stage at another.
	Handoff(id sim.RequestID, from, to sim.Time)
	// Left shows a request that leaves its worker, or the line before it, without its
	// last token.
	Left(d *Departure)
	// Pass shows a pass or a run of passes, with Detail; in real time in the
	// instants at which it really began and ended.
	Pass(stage scheduler.Role, w sim.WorkerID, p *scheduler.Pass)
}

// Departure is a request that leaves its worker without its last token. It enters the
// cluster once more, unless its Outcome has its end.
type Departure struct {
	Request sim.RequestID
	Stage   scheduler.Role
	Worker  sim.WorkerID // collector.Nowhere where it was on none
	At      sim.Time
	Outcome collector.Outcome
	Keeps   bool     // the tokens that it has gained; otherwise they are thrown away
	Gained  int      // tokens, on this worker
	Last    sim.Time // instant of the latest of them, if there is one
}

// NoObserver is an Observer that does nothing. Observers embed it for what they
// ignore.
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

// PerWorker is what an observer keeps of each worker of each stage.
type PerWorker[T any] [2][]T

// At returns the kept part of a worker, which is nothing at first.
func (all *PerWorker[T]) At(stage scheduler.Role, w sim.WorkerID) *T {
	list := &all[stage.Stage()]
	if missing := int(w) + 1 - len(*list); missing > 0 {
		*list = append(*list, make([]T, missing)...)
	}
	return &(*list)[w]
}
