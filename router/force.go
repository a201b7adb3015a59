package router

import "github.com/replay-llm/replay/sim"

// forced is a policy with a forced choice for one request. forced also calls the policy, so that the policy's state
// and later random draws are unchanged.
type forced struct {
	Policy
	request sim.RequestID
	worker  sim.WorkerID
}

// Choose returns the choice of the policy, except for the forced request.
func (f *forced) Choose(q *sim.Request, c *Candidates) Choice {
	own := f.Policy.Choose(q, c)
	if q.ID != f.request || own.Worker == f.worker {
		return own
	}
	return Choice{Worker: f.worker, Second: None}
}

// Err returns the error of the policy.
func (f *forced) Err() error {
	if p, ok := f.Policy.(Fallible); ok {
		return p.Err()
	}
	return nil
}

// ForceChoice sends a request to a worker, regardless of the policy, when a worker is chosen for the request.
// ForceChoice reports false under a policy that decides on several requests together.
func (d *Dispatcher) ForceChoice(id sim.RequestID, w sim.WorkerID) bool {
	if _, ok := d.policy.(Batcher); ok {
		return false
	}
	d.policy = &forced{Policy: d.policy, request: id, worker: w}
	return true
}
