package engines

import (
	"errors"
	"slices"

	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/sim"
)

// checkText rejects policies of files that read facts that these workers do not have.
func (t *Topology) checkText() error {
	var names []string
	if text, ok := t.Router.(*policy.Text); ok {
		names = text.LooksAt()
	}
	if t.Admission != nil {
		names = append(names, t.Admission.LooksAt()...)
	}
	if !slices.Contains(names, "cost") {
		return nil
	}
	for i := range t.Pools {
		for _, k := range t.Pools[i].Kinds() {
			if rent, err := k.Rent(0); err != nil {
				return err
			} else if rent.PerHour == 0 {
				return errors.New("a router policy or an admission that reads cost, requires workers with the price of a GPU (--gpu)")
			}
		}
	}
	return nil
}

// traits returns the facts that a router knows about each worker of the pool. The last element is for workers added
// later.
func (s *Stage) traits() []policy.Worker {
	var all []policy.Worker
	for _, k := range s.Pool.Kinds() {
		rent, _ := k.Rent(0) // cannot fail after checkText
		for range k.Count {
			all = append(all, policy.Worker{Kind: k.Name, Speed: s.speedOf(s.index, sim.WorkerID(len(all))), Cost: rent.PerHour})
		}
	}
	k := s.Pool.Kinds()[s.laterKind()]
	rent, _ := k.Rent(0)
	return append(all, policy.Worker{Kind: k.Name, Speed: 1, Cost: rent.PerHour})
}
