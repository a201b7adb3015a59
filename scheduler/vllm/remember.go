package vllm

import "github.com/replay-llm/replay/sim/prompt"

// Nodes calls need with every prompt node of which something is cached. Pools that are watched block by block
// know of none.
func (c *Core) Nodes(need func(prompt.NodeID)) {
	p, ok := c.pool.(*segments)
	if !ok {
		return
	}
	for n := range p.nodes.All() {
		need(n)
	}
}
