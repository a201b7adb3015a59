package router

import (
	"github.com/replay-llm/replay/sim/prompt"
)

// Rememberer is a Policy or an Admission that keeps prompt nodes after their requests have left.
type Rememberer interface {
	// Nodes calls need with the prompt nodes that it keeps.
	Nodes(need func(prompt.NodeID))
}

// Nodes calls need with the prompt nodes that the dispatcher keeps for requests that may have left. The kept nodes
// are those of the policy, of the Admission and of delayed signals.
func (d *Dispatcher) Nodes(need func(prompt.NodeID)) {
	if p, ok := d.policy.(Rememberer); ok {
		p.Nodes(need)
	}
	if a, ok := d.admission.(Rememberer); ok {
		a.Nodes(need)
	}
	if d.late != nil {
		for w := range d.late.workers {
			changes := &d.late.workers[w].changes
			for i := range changes.count {
				need(changes.at(i).Node)
			}
		}
	}
	if d.lateLoads == nil {
		return
	}
	for w := range d.lateLoads.logs {
		log := &d.lateLoads.logs[w]
		for i := range log.count {
			for _, n := range log.at(i).prompt.Nodes {
				need(n)
			}
		}
	}
}
