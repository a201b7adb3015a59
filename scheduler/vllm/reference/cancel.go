package reference

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

var _ scheduler.Canceler = (*Core)(nil)

// Cancel takes a request out, wherever it stands.
func (c *Core) Cancel(now sim.Time, id sim.RequestID, p *scheduler.Pass) bool {
	p.Reset(now)
	s := c.findSlot(id)
	if s == none {
		return false
	}
	c.capture.beginPass(p)
	r := &c.requests[s]
	if r.state == steady {
		c.endSteady(s, false)
	}
	c.fresh = slices.DeleteFunc(c.fresh, func(f slot) bool { return f == s })
	c.pool.Release(s)
	c.pool.Forget(s)
	switch r.queue {
	case runningQueue:
		c.removeFrom(&c.running, s)
		c.irregular--
	case waitingQueue:
		c.removeFrom(&c.waiting, s)
	}
	r.state = gone
	c.live--
	c.unused = append(c.unused, s)
	c.blocked = false
	c.notes = c.notes[:0]
	c.checkAccounts()
	c.fillDetail(p, now)
	return true
}

// findSlot returns the slot of a request, none when it is not here.
func (c *Core) findSlot(id sim.RequestID) slot {
	for s := range c.requests {
		if r := &c.requests[s]; r.id == id && r.state != gone {
			return slot(s)
		}
	}
	return none
}
