package router

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// RoundRobin takes the registered workers in turn, by ascending id. It holds no
// request back and looks at no cache.
type RoundRobin struct {
	workers workers
	next    int // not wrapped: the set may have changed by the next call
}

var _ Router = (*RoundRobin)(nil)

// NewRoundRobin returns a round robin over the workers 0 to count-1.
func NewRoundRobin(count int) *RoundRobin {
	r := &RoundRobin{}
	for w := range count {
		r.workers.ids = append(r.workers.ids, sim.WorkerID(w))
	}
	return r
}

func (r *RoundRobin) Route(_ sim.Time, q *sim.Request, dst []Placement) ([]Placement, error) {
	ids := r.workers.ids
	if len(ids) == 0 {
		return dst, &NoWorkersError{Request: q.ID}
	}
	i := r.next % len(ids)
	r.next = i + 1
	return append(dst, Placement{Request: q, Worker: ids[i], Second: None}), nil
}

func (r *RoundRobin) PrefillDone(_ sim.Time, _ sim.RequestID, dst []Placement) ([]Placement, error) {
	return dst, nil
}

func (r *RoundRobin) Finished(_ sim.Time, _ sim.RequestID, dst []Placement) ([]Placement, error) {
	return dst, nil
}

func (r *RoundRobin) Observe(sim.WorkerID, *scheduler.Pass) error { return nil }

func (r *RoundRobin) AddWorker(w sim.WorkerID) error { return r.workers.add(w) }

func (r *RoundRobin) RemoveWorker(w sim.WorkerID) error { return r.workers.remove(w) }

func (r *RoundRobin) Drain(_ sim.Time, dst []Placement) ([]Placement, error) { return dst, nil }

func (r *RoundRobin) Queued() int { return 0 }

func (r *RoundRobin) Waiting(dst []sim.RequestID) []sim.RequestID { return dst }
