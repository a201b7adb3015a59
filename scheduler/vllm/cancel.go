package vllm

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

var _ scheduler.Core = (*Core)(nil)

// Cancel removes a request in any state. The request is also removed from the planned pass, which keeps its planned
// duration.
func (c *Core) Cancel(now sim.Time, id sim.RequestID, p *scheduler.Pass) bool {
	p.Reset(now)
	s, ok := c.findSlot(id)
	if !ok {
		return false
	}
	c.events.BeginPass(p)
	r := &c.requests[s]
	if c.conn != nil {
		c.conn.Out, c.conn.fencing = p, c.conn.isInFlight(s)
	}
	switch r.state {
	case steady:
		c.plans++ // steady requests are updated in the next plan
		c.endSteady(s)
		c.plans--
	case running:
		c.calm.removeLively(s)
	}
	c.next.remove(s)
	c.running = slices.DeleteFunc(c.running, func(x slot) bool { return x == s })
	c.finishRequest(s)
	if c.conn != nil {
		c.conn.alone = c.conn.alone || c.live == 0
	}
	c.checkAccounts()
	c.describePass(new(flight), p)
	return true
}

// findSlot returns the slot of a request; the result is false if it is not on the core.
func (c *Core) findSlot(id sim.RequestID) (slot, bool) {
	i := slices.IndexFunc(c.requests, func(r request) bool { return r.id == id && r.state != gone })
	return slot(i), i >= 0
}

// remove removes s from a planned pass.
func (f *flight) remove(s slot) {
	for i := range f.shares {
		if x := &f.shares[i]; x.slot == s && !x.dropped {
			x.dropped = true
			f.live--
		}
	}
	f.extra = slices.DeleteFunc(f.extra, func(x slot) bool { return x == s })
}
