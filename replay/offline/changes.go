package offline

import (
	"github.com/replay-llm/replay/replay/engines"
)

// hasPlans reports whether something is still to happen at a given time.
func (c *cluster) hasPlans() bool { return len(c.scaling)+len(c.changes) > 0 || c.saveAt > 0 }

// carryOutPlans carries out what is to happen at this instant, after everything else: sizes, then
// changes; and caches are kept.
func (c *cluster) carryOutPlans() error {
	if err := c.scaleAsPlanned(); err != nil {
		return err
	}
	if err := c.changeAsPlanned(); err != nil {
		return err
	}
	c.saveAsPlanned()
	return nil
}

// scaleAsPlanned carries out what is planned for this instant, after everything else.
func (c *cluster) scaleAsPlanned() error {
	for len(c.scaling) > 0 && c.scaling[0].At <= c.now && !c.isPast() {
		e := c.scaling[0]
		c.scaling = c.scaling[1:]
		if err := c.scalePools([]int{e.Workers, e.Decode}[:len(c.pools)]); err != nil {
			return err
		}
		if err := c.settleInstant(); err != nil {
			return err
		}
	}
	return nil
}

// changeAsPlanned carries out what is to be changed at this instant, after everything else
// (docs/rules/harness.md, Changes).
func (c *cluster) changeAsPlanned() error {
	for len(c.changes) > 0 && c.changes[0].At <= c.now {
		x := &c.changes[0]
		c.changes = c.changes[1:]
		if err := c.change(x); err != nil {
			return err
		}
		if err := c.settleInstant(); err != nil {
			return err
		}
	}
	return nil
}

// change carries out a change.
func (c *cluster) change(x *engines.Change) error {
	if c.instant.at == c.now {
		c.instant.irregular = true // what this instant brought has begun already
	}
	t := c.Topology.With(x)
	c.SetTopology(t)
	if x.Speedup > 0 {
		c.Feed.SetSpeedup(c.now, x.Speedup)
	}
	if x.Admission != nil || x.Faults != nil {
		c.Collector.KeepOutcomes()
	}
	if x.Faults != nil {
		c.lives.rules = x.Faults
		if err := c.planFaults(); err != nil {
			return err
		}
	}
	if x.Reroutes() {
		if err := c.changeRouters(t); err != nil {
			return err
		}
	}
	if x.WorkerSpeeds != nil {
		if err := c.changeSpeeds(t); err != nil {
			return err
		}
	}
	if x.Workers+x.Decode == 0 {
		return nil
	}
	sizes := [2]int{engines.KeepSize, engines.KeepSize}
	for i, n := range [...]int{x.Workers, x.Decode} {
		if n > 0 {
			sizes[i] = n
		}
	}
	return c.scalePools(sizes[:len(c.pools)])
}

// changeSpeeds lets the passes of workers that begin from now on take as long as t says. Of runs in
// progress the pass in progress ends as it was planned.
func (c *cluster) changeSpeeds(t *engines.Topology) error {
	for _, p := range c.pools {
		p.Stage = p.WithTopology(t)
		for _, w := range p.workers {
			if w.core == nil {
				continue // it is not there
			}
			w.core.SetClock(p.ClockOf(w.id))
			if w.busy {
				if keep := w.countBegun(c.now, true); keep < w.pass.Count {
					c.trimRun(w, keep)
				}
			}
		}
	}
	return nil
}

// changeRouters lets the policies of t choose from now on. Whom those before held back comes before
// them.
func (c *cluster) changeRouters(t *engines.Topology) error {
	for _, p := range c.pools {
		held, err := p.ChangeRouter(c.now, t)
		if err != nil {
			return err
		}
		for _, id := range held {
			if err := c.enterPool(p, c.Requests.Get(int(id))); err != nil {
				return err
			}
		}
	}
	return nil
}
