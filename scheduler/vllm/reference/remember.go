package reference

import "github.com/replay-llm/replay/sim/prompt"

// Nodes calls need with every prompt node of which something is cached. A pool with host memory behind it knows of
// none.
func (c *Core) Nodes(need func(prompt.NodeID)) {
	p, ok := c.pool.(*device)
	if !ok {
		return
	}
	for n := range p.nodes.All() {
		need(n)
	}
}
