package offline

import (
	"github.com/replay-llm/replay/replay/engines"
)

// hasPlans reports whether something is still to happen at a given time.
func (f *fleet) hasPlans() bool { return len(f.scaling)+len(f.changes) > 0 || f.c.saveAt > 0 }

// carryOutPlans carries out what is to happen at this instant, after everything else: sizes, then
// changes; and caches are kept.
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

// scaleAsPlanned carries out what is planned for this instant, after everything else.
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

// changeAsPlanned carries out what is to be changed at this instant, after everything else
// (docs/rules/harness.md, Changes).
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

// change carries out a change.
func (f *fleet) change(x *engines.Change) error {
	if f.c.instant.at == f.c.now {
		f.c.instant.irregular = true // what this instant brought has begun already
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

// changeSpeeds lets the passes of workers that begin from now on take the time of t. Of runs in
// progress the pass in progress ends as it was planned.
func (f *fleet) changeSpeeds(t *engines.Topology) error {
	for _, p := range f.c.pools {
		p.Stage = p.WithTopology(t)
		for _, w := range p.workers {
			if w.core == nil {
				continue // it is not there
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

// changeRouters lets the policies of t choose from now on. Requests that earlier ones held back come before
// them.
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
