package runs

import (
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// observers are shown a run one after the other.
type observers []harness.Observer

// growAll makes room in those that remember requests for so many of them.
func (all observers) growAll(requests int) {
	for _, o := range all {
		if o, ok := o.(interface{ Grow(requests int) }); ok {
			o.Grow(requests)
		}
	}
}

func (all observers) Arrived(q *sim.Request, at sim.Time) {
	for _, o := range all {
		o.Arrived(q, at)
	}
}

func (all observers) Routed(stage scheduler.Role, at sim.Time, p *router.Placement) {
	for _, o := range all {
		o.Routed(stage, at, p)
	}
}

func (all observers) Handoff(id sim.RequestID, from, to sim.Time) {
	for _, o := range all {
		o.Handoff(id, from, to)
	}
}

func (all observers) Pass(stage scheduler.Role, w sim.WorkerID, p *scheduler.Pass) {
	for _, o := range all {
		o.Pass(stage, w, p)
	}
}
