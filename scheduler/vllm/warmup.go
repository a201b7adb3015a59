package vllm

import "github.com/replay-llm/replay/sim"

// warmUp returns the additional duration of the pass that begins now, if it is the first warm-up pass of a fresh
// engine. A pass planned while another pass runs is launched at that time, and delays the running pass.
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
