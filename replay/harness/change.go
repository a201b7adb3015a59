package harness

import (
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/sim"
)

// SetTopology makes t what the cluster is from now on. What is prepared already, its workers, stays.
func (r *Run) SetTopology(t *engines.Topology) {
	own := *r.Config
	own.Topology = *t
	r.Config = &own
}

// ChangeRouter lets the policies of t decide from now on and returns the requests that earlier ones have held
// back, in the order in which they would have been placed. They are to enter the pool once more.
func (p *Pool) ChangeRouter(now sim.Time, t *engines.Topology) ([]sim.RequestID, error) {
	stage := p.Stage.WithTopology(t)
	policy, admission, err := stage.NewChoosers()
	if err != nil {
		return nil, err
	}
	held := p.Router.Release()
	p.Stage = stage
	p.Router.Follow(now, policy, admission)
	return held, nil
}
