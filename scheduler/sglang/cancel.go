package sglang

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

var _ scheduler.Core = (*Core)(nil)

// Cancel removes a request in any state. The cached pages of the request stay in the tree. A planned token of the
// request is computed and discarded.
func (c *Core) Cancel(now sim.Time, id sim.RequestID, p *scheduler.Pass) bool {
	p.Reset(now)
	p.KVAtEnd = true
	r := c.findRequest(id)
	if r == nil {
		return false
	}
	switch {
	case r.place != notRunning:
		c.loseFlight(r)
		c.batch.stopRunning(r)
		c.batch.closeGaps()
	case r == c.partial:
		c.partial = nil
	default:
		c.decoding.removeQueued(r)
	}
	if r.stored > 0 {
		c.pages.releasePages(r, false)
	}
	c.tiers.dropFetch(r)
	c.queue.full = false
	c.forgetRequest(r)
	if c.live == 0 {
		c.dropFlight(now)
		c.drafts.left = 0
		c.batch.done = c.batch.planned
	}
	c.check()
	c.describeState(p)
	return true
}

// findRequest returns a request by its id, or nil if it is not on the core.
func (c *Core) findRequest(id sim.RequestID) *request {
	is := func(r *request) bool { return r.ID == id }
	if c.partial != nil && is(c.partial) {
		return c.partial
	}
	for _, v := range c.merging {
		if !v.isVoid() && is(v.request) {
			return v.request
		}
	}
	for _, all := range [][]*request{c.batch.running, c.queue.waiting.All(), c.retracted, c.arrived} {
		if i := slices.IndexFunc(all, is); i >= 0 {
			return all[i]
		}
	}
	return nil
}
