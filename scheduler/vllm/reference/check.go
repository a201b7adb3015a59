package reference

import (
	"fmt"

	"github.com/replay-llm/replay/internal/invariant"
)

// checkAccounts panics if the counters of the core or of its pool do not agree.
func (c *Core) checkAccounts() {
	if !invariant.Enabled {
		return
	}
	c.checkQueues()
	c.pool.Check()
}

func (c *Core) checkQueues() {
	steadies, irregulars, n := 0, 0, 0
	last := uint64(0)
	for s := c.running.front; s != none; s = c.requests[s].next {
		r := &c.requests[s]
		n++
		switch r.state {
		case steady:
			steadies++
		case irregular:
			irregulars++
		default:
			panic(fmt.Sprintf("running: request %d is %v", r.id, r.state))
		}
		if r.order <= last {
			panic(fmt.Sprintf("running: request %d admitted as %d stands behind %d", r.id, r.order, last))
		}
		last = r.order
	}
	if steadies != c.steady || irregulars != c.irregular || n != c.running.len {
		panic(fmt.Sprintf("running: %d steady + %d irregular = %d, must be %d + %d = %d",
			steadies, irregulars, n, c.steady, c.irregular, c.running.len))
	}
	parked := c.pool.Fetching()
	if n+c.waiting.len+parked != c.live {
		panic(fmt.Sprintf("%d running + %d waiting + %d parked != %d submitted and not finished",
			n, c.waiting.len, parked, c.live))
	}
}

// Check panics if the counters of the pool do not agree.
func (p *device) Check() {
	c := p.core
	idle := 0
	for i := p.lru.oldest; i != noSeg; i = p.lru.at(i).younger {
		s := p.lru.at(i)
		if s.lo >= s.hi {
			panic(fmt.Sprintf("block pool: segment of blocks %d to %d", s.lo, s.hi))
		}
		idle += int(s.hi - s.lo)
	}
	held := c.countPartials()
	for _, r := range c.inLine() {
		held += int(r.own.active)
	}
	for id, n := range p.nodes.All() {
		if n.active > n.resident || n.isEmpty() {
			panic(fmt.Sprintf("block pool: node %d holds %d active of %d cached blocks", id, n.active, n.resident))
		}
		held += int(n.active)
	}
	if idle != p.inactive || p.free < 0 || p.free+idle+held != p.blocks {
		panic(fmt.Sprintf("block pool: %d free + %d inactive + %d held != %d total (%d inactive counted)",
			p.free, p.inactive, held, p.blocks, idle))
	}
}

// countPartials returns the number of partial blocks that requests hold. A waiting request can hold blocks if it got
// too few blocks to continue.
func (c *Core) countPartials() (n int) {
	for _, r := range c.inLine() {
		if r.state == steady && r.part || r.state != steady && c.heldBlocks(r) > r.full {
			n++
		}
	}
	return n
}
