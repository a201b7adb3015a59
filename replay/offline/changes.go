package offline

import (
	"github.com/replay-llm/replay/replay/engines"
)

// hasPlans reports whether a planned change, a planned size or a planned save of caches has not happened yet.
func (f *fleet) hasPlans() bool { return len(f.scaling)+len(f.changes) > 0 || f.c.saveAt > 0 }

// carryOutPlans applies everything that is planned for this instant, after all other effects. The order is pool
// sizes, changes, then saved caches.
func (f *fleet) carryOutPlans() error {
	if err := f.scaleAsPlanned(); err != nil {
		return err
	}
	if err := f.changeAsPlanned(); err != nil {
		return err
	}
	f.c.saveAsPlanned()
	return nil
}

// scaleAsPlanned applies the pool sizes that are planned for this instant.
func (f *fleet) scaleAsPlanned() error {
	for len(f.scaling) > 0 && f.scaling[0].At <= f.c.now && !f.c.agenda.isPast() {
		e := f.scaling[0]
		f.scaling = f.scaling[1:]
		if err := f.scalePools([]int{e.Workers, e.Decode}[:len(f.c.pools)]); err != nil {
			return err
		}
		if err := f.c.settleInstant(); err != nil {
			return err
		}
	}
	return nil
}

// changeAsPlanned applies the changes that are planned for this instant (docs/rules/harness.md, Changes).
func (f *fleet) changeAsPlanned() error {
	for len(f.changes) > 0 && f.changes[0].At <= f.c.now {
		x := &f.changes[0]
		f.changes = f.changes[1:]
		if err := f.change(x); err != nil {
			return err
		}
		if err := f.c.settleInstant(); err != nil {
			return err
		}
	}
	return nil
}

// change applies a change.
func (f *fleet) change(x *engines.Change) error {
	if f.c.instant.at == f.c.now {
		f.c.instant.irregular = true // the effects of this instant have begun already
	}
	t := f.c.Topology.With(x)
	f.c.SetTopology(t)
	if x.Speedup > 0 {
		f.c.Feed.SetSpeedup(f.c.now, x.Speedup)
	}
	if x.Admission != nil || x.Faults != nil {
		f.c.Collector.KeepOutcomes()
	}
	if x.Faults != nil {
		f.c.lives.rules = x.Faults
		if err := f.c.faults.planFaults(); err != nil {
			return err
		}
	}
	if x.Reroutes() {
		if err := f.changeRouters(t); err != nil {
			return err
		}
	}
	if x.WorkerSpeeds != nil {
		if err := f.changeSpeeds(t); err != nil {
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
	return f.scalePools(sizes[:len(f.c.pools)])
}

// changeSpeeds applies the worker speeds of t to passes that begin from now on. A pass in progress ends at its
// planned time.
func (f *fleet) changeSpeeds(t *engines.Topology) error {
	for _, p := range f.c.pools {
		p.Stage = p.WithTopology(t)
		for _, w := range p.workers {
			if w.core == nil {
				continue // the worker is gone
			}
			w.core.SetClock(p.ClockOf(w.id))
			if w.busy {
				if keep := w.countBegun(f.c.now, true); keep < w.pass.Count {
					f.c.trimRun(w, keep)
				}
			}
		}
	}
	return nil
}

// changeRouters replaces the policies by the policies of t. Requests that an earlier policy held enter the new
// router.
func (f *fleet) changeRouters(t *engines.Topology) error {
	for _, p := range f.c.pools {
		held, err := p.ChangeRouter(f.c.now, t)
		if err != nil {
			return err
		}
		for _, id := range held {
			if err := f.c.enterPool(p, f.c.Requests.Get(int(id))); err != nil {
				return err
			}
		}
	}
	return nil
}
