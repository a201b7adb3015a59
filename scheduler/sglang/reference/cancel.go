package reference

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

var _ scheduler.Core = (*Core)(nil)

// Cancel removes a request in any state. The cached pages of the request stay in the tree.
func (c *Core) Cancel(now sim.Time, id sim.RequestID, p *scheduler.Pass) bool {
	p.Reset(now)
	p.KVAtEnd = true
	c.record.begin(p)
	r := c.findRequest(id)
	if r == nil {
		return false
	}
	switch {
	case r.place != notRunning:
		c.stopRunning(r)
		c.joined = slices.DeleteFunc(c.joined, isNotRunning)
		c.fresh = slices.DeleteFunc(c.fresh, isNotRunning)
	default:
		c.waiting.Remove(r)
	}
	if r.stored > 0 {
		c.releaseMemory(r)
	}
	c.sorted.valid = false
	r.Request = nil
	c.spare = append(c.spare, r)
	c.retired = c.retired[:0]
	c.check()
	c.describeState(p, now)
	return true
}

// findRequest returns a request by its id, or nil if it is not on the core.
func (c *Core) findRequest(id sim.RequestID) *request {
	is := func(r *request) bool { return r.ID == id }
	for _, all := range [][]*request{c.running, c.waiting.All()} {
		if i := slices.IndexFunc(all, is); i >= 0 {
			return all[i]
		}
	}
	return nil
}
