package reference

import "github.com/replay-llm/replay/sim/prompt"

// Nodes calls need with every prompt node that has cached blocks. A pool with host memory reports no nodes.
func (c *Core) Nodes(need func(prompt.NodeID)) {
	p, ok := c.pool.(*device)
	if !ok {
		return
	}
	for n := range p.nodes.All() {
		need(n)
	}
}
