package engines

import (
	"errors"
	"slices"

	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
)

// checkText refuses policies of files that look at what nobody knows of these workers.
func (t *Topology) checkText() error {
	var names []string
	if t.Text != nil {
		names = t.Text.LooksAt()
	}
	if t.Admission != nil {
		names = append(names, t.Admission.LooksAt()...)
	}
	if !slices.Contains(names, "cost") {
		return nil
	}
	for i := range t.Pools {
		for _, k := range t.Pools[i].Kinds() {
			if price, err := k.price(); err != nil {
				return err
			} else if price == 0 {
				return errors.New("a router policy or an admission that looks at cost, want workers whose GPU has a price (--gpu)")
			}
		}
	}
	return nil
}

// traits returns what a router knows of each worker of the pool, and last of those to come.
func (s *Stage) traits() []policy.Worker {
	var all []policy.Worker
	for _, k := range s.Pool.Kinds() {
		price, _ := k.price() // checkText has
		for range k.Count {
			all = append(all, policy.Worker{Kind: k.Name, Speed: s.speedOf(s.index, sim.WorkerID(len(all))), Cost: price})
		}
	}
	k := s.Pool.Kinds()[s.laterKind()]
	price, _ := k.price()
	return append(all, policy.Worker{Kind: k.Name, Speed: 1, Cost: price})
}

// price returns what a worker costs an hour by default prices; 0 where that is not known.
func (k *Kind) price() (float64, error) {
	gpus, price, err := timing.GPUs(k.Engine.ProfilePath)
	return float64(gpus) * price, err
}
