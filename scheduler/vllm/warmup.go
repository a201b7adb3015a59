package vllm

import "github.com/replay-llm/replay/sim"

// warmUp returns by how much longer the pass that begins now takes since it is the first of its kind. A pass that is
// planned while another runs is launched then, and holds that one up.
func (c *Core) warmUp(now sim.Time) sim.Time {
	if until := c.cfg.Warmup.Until; until > 0 && now > until {
		c.cold = false
	}
	if !c.cold || max(c.next.countGains(), c.after.countGains()) < c.cfg.Warmup.Requests {
		return 0
	}
	c.cold = false
	return c.cfg.Warmup.Time
}

// countGains returns how many requests gain a token in f.
func (f *flight) countGains() int {
	n := f.steady
	for i := range f.shares {
		if x := &f.shares[i]; x.samples && !x.dropped {
			n++
		}
	}
	return n
}
