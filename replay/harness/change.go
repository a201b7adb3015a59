package harness

import (
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/sim"
)

// SetTopology sets the topology of the cluster from now on. Workers that are already prepared do not change.
func (r *Run) SetTopology(t *engines.Topology) {
	own := *r.Config
	own.Topology = *t
	r.Config = &own
}

// ChangeRouter replaces the policies by those of t. ChangeRouter returns the requests that the earlier policies held,
// in the order in which they would have been placed. The caller must let these requests enter the pool again.
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
