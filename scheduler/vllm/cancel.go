package vllm

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

var _ scheduler.Core = (*Core)(nil)

// Cancel removes a request from any state, and from the pass that is already planned, which takes as long as planned.
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
		c.plans++ // as if the next plan had begun, which is when requests settle
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

// findSlot is the slot of a request, when it is here.
func (c *Core) findSlot(id sim.RequestID) (slot, bool) {
	i := slices.IndexFunc(c.requests, func(r request) bool { return r.id == id && r.state != gone })
	return slot(i), i >= 0
}

// remove takes s out of a planned pass.
func (f *flight) remove(s slot) {
	for i := range f.shares {
		if x := &f.shares[i]; x.slot == s && !x.dropped {
			x.dropped = true
			f.live--
		}
	}
	f.extra = slices.DeleteFunc(f.extra, func(x slot) bool { return x == s })
}
