package vllm

import "github.com/replay-llm/replay/sim/prompt"

// Nodes calls need with every prompt node that has cached blocks.
func (c *Core) Nodes(need func(prompt.NodeID)) {
	pool := c.pool
	if o, ok := pool.(*offloaded); ok {
		pool = o.stock
	}
	switch p := pool.(type) {
	case *segments:
		for n := range p.nodes.All() {
			need(n)
		}
	case *layered:
		p.named.VisitNodes(need)
	case deviceOnly:
		p.markNodes(need)
	case singles:
		p.markNodes(need)
	case *grouped:
		p.markNodes(need)
	}
}

// remembers reports whether Nodes lists all cached nodes. Nodes does not list nodes in host memory.
func (c *Core) remembers() bool {
	p, ok := c.pool.(*offloaded)
	return !ok || !p.conn.hosts && p.conn.simple == nil
}

// markNodes calls need with the node of each block that other requests can find.
func (p *device) markNodes(need func(prompt.NodeID)) {
	for i := range p.all {
		if key := p.all[i].key; key >= 0 {
			content, _ := p.parseGroup(key)
			need(prompt.NodeID(content / int64(p.perNode)))
		}
	}
}
