package reference

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

var _ scheduler.Core = (*Core)(nil)

// Cancel removes a request, waiting or running.
func (c *Core) Cancel(now sim.Time, id sim.RequestID, p *scheduler.Pass) bool {
	p.Reset(now)
	s := c.findSlot(id)
	if s == none {
		return false
	}
	c.capture.beginPass(p)
	if c.requests[s].state == steady {
		c.endSteady(s, false)
	}
	c.fresh = slices.DeleteFunc(c.fresh, func(f slot) bool { return f == s })
	c.finishRequest(s)
	c.blocked = false
	c.notes = c.notes[:0]
	c.checkAccounts()
	c.fillDetail(p, now)
	return true
}

// findSlot returns the slot of a request, or none if the core does not have it.
func (c *Core) findSlot(id sim.RequestID) slot {
	return slot(slices.IndexFunc(c.requests, func(r request) bool { return r.id == id && r.state != gone }))
}
