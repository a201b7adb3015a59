package router

import "github.com/replay-llm/replay/sim"

// forced is a policy with one choice made elsewhere. The policy is still asked, so that its state and its later draws
// are unchanged.
type forced struct {
	Policy
	request sim.RequestID
	worker  sim.WorkerID
}

// Choose chooses as the policy does, except one request.
func (f *forced) Choose(q *sim.Request, c *Candidates) Choice {
	own := f.Policy.Choose(q, c)
	if q.ID != f.request || own.Worker == f.worker {
		return own
	}
	return Choice{Worker: f.worker, Second: None}
}

// Err returns why the policy could not choose.
func (f *forced) Err() error {
	if p, ok := f.Policy.(Fallible); ok {
		return p.Err()
	}
	return nil
}

// ForceChoice lets a request go to a worker whatever the policy would choose, once it is chosen for. It
// reports false under a policy that decides on several requests together.
func (d *Dispatcher) ForceChoice(id sim.RequestID, w sim.WorkerID) bool {
	if _, ok := d.policy.(Batcher); ok {
		return false
	}
	d.policy = &forced{Policy: d.policy, request: id, worker: w}
	return true
}
