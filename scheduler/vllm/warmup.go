package vllm

import "github.com/replay-llm/replay/sim"

// Warmup is the once that a fresh engine stands still, as while it compiles a kernel that no
// pass has needed before: its first pass in which so many requests gain a token takes longer.
type Warmup struct {
	Requests int      // that gain a token in the pass
	Time     sim.Time // by which it takes longer; 0: the engine is not fresh
	Until    sim.Time // a pass that begins later is as any other; 0: none is
}

// Given reports whether the engine is fresh.
func (w Warmup) Given() bool { return w.Time > 0 }

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
