package offline

import (
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Observer is shown what happens in a replay, for files that tell more than a
// report. What it is handed belongs to the replay and is valid during the call.
//
// Arrivals and placements come in the order of time. So do the passes of one
// worker, each when it is over; passes of different workers need not, since
// workers that cannot tell of each other are replayed one after the other.
type Observer interface {
	// Arrived shows a request that enters the cluster.
	Arrived(q *sim.Request, at sim.Time)
	// Routed shows a request that is given to a worker of a stage.
	Routed(stage scheduler.Role, at sim.Time, p *router.Placement)
	// Handoff shows a request whose KV cache leaves the prefill worker at one
	// instant and reaches the decode stage at another.
	Handoff(id sim.RequestID, from, to sim.Time)
	// Pass shows a pass or a run of passes, with Detail.
	Pass(stage scheduler.Role, w sim.WorkerID, p *scheduler.Pass)
}

// watch prepares a pass for an observer, who wants to see its details.
func (r *run) watch(p *scheduler.Pass) {
	if r.cfg.Observer != nil && p.Detail == nil {
		p.Detail = new(scheduler.Detail)
	}
}

// passed notes a pass whose tokens count, or the admissions of one whose tokens
// do not, and shows it to the observer.
func (r *run) passed(s *stage, w sim.WorkerID, p *scheduler.Pass, visible bool) {
	if visible {
		r.col.Pass(p)
	}
	if o := r.cfg.Observer; o != nil {
		o.Pass(s.Role, w, p)
	}
}

// routed notes where a request goes.
func (r *run) routed(s *stage, at sim.Time, p *router.Placement, visible bool) {
	if visible {
		r.col.Place(p.Request.ID, p.Worker)
	} else {
		r.col.PlacePrefill(p.Request.ID, p.Worker)
	}
	if o := r.cfg.Observer; o != nil {
		o.Routed(s.Role, at, p)
	}
}
