package offline

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/sim"
)

// faults applies the faults of a cluster: planned faults, and random breakdowns by fault laws.
type faults struct {
	c      *cluster
	linkBy int // number of the fault that limits the bandwidth of links
}

// planFaults schedules all planned faults, and the first breakdown of each law and worker.
func (f *faults) planFaults() error {
	rules := f.c.Faults
	if rules == nil {
		return nil
	}
	for i := range rules.Events {
		f.c.agenda.schedule(rules.Events[i].At, &fault{Fault: rules.Events[i]})
	}
	for i := range rules.Laws {
		for _, p := range f.c.pools {
			for _, w := range p.workers {
				f.planBreakdown(i, w)
			}
		}
	}
	return nil
}

// planBreakdowns schedules the first breakdown of a new worker by each law.
func (f *faults) planBreakdowns(w *worker) {
	if f.c.Faults == nil {
		return
	}
	for i := range f.c.Faults.Laws {
		f.planBreakdown(i, w)
	}
}

// planBreakdown schedules the first breakdown of a worker by a law, if the law applies to the worker.
func (f *faults) planBreakdown(law int, w *worker) {
	l := &f.c.Faults.Laws[law]
	x := engines.Fault{Pool: l.Pool, Zone: engines.Anywhere, Workers: l.Workers}
	if x.Hits(f.c.Faults, w.pool.Index, w.id) {
		b := &breakdown{law: l, worker: w, draw: sim.NewRand(f.c.Seed, fmt.Sprintf("faults %d %d %d", law, w.pool.Index, w.id))}
		f.c.agenda.schedule(f.c.now+b.drawMean(l.Between), b)
	}
}

// breakdown is the next death of a worker by a law.
type breakdown struct {
	law    *engines.FaultLaw
	worker *worker
	draw   *rand.Rand
}

// drawMean draws an exponentially distributed time with the given mean, in whole ms.
func (b *breakdown) drawMean(mean sim.Time) sim.Time {
	return sim.Time(int64(b.draw.ExpFloat64() * float64(mean)))
}

func (b *breakdown) happen(c *cluster) error {
	w := b.worker
	if w.state == gone && !w.returns || c.lives.isStranded() {
		return nil // the worker does not return
	}
	next := b.drawMean(b.law.Between)
	if w.isUp() {
		back := b.drawMean(b.law.Repair)
		next += back
		x := fault{Fault: engines.Fault{Kind: engines.Dies, Pool: w.pool.Index, Zone: engines.Anywhere, Workers: []sim.WorkerID{w.id}, Back: back}}
		if len(c.pools) == 1 {
			x.Pool = engines.Anywhere
		}
		if err := x.happen(c); err != nil {
			return err
		}
	}
	c.agenda.schedule(c.now+max(next, 1), b)
	return nil
}

// isUp reports whether w serves requests.
func (w *worker) isUp() bool { return w.state == active || w.state == leaving }

// fault is a fault and its number.
type fault struct {
	engines.Fault
	number int       // number among all incidents, from 1
	left   []*worker // workers that a rolling update has not drained yet
}

func (x *fault) happen(c *cluster) error {
	hit := c.faults.workersHit(x)
	x.number = c.faults.noteIncident(x.String(), hit)
	switch x.Kind {
	case engines.Dies:
		return c.faults.killLater(x, hit)
	case engines.Hangs:
		for _, w := range hit {
			c.lives.hangWorker(w, x.For)
		}
	case engines.Slows:
		for _, w := range hit {
			c.lives.slowWorker(w, x.Factor)
			w.slowedBy = x.number
		}
	case engines.Link:
		c.faults.linkBy = x.number
		c.handover.setLinkShare(x.Factor)
	case engines.NoIndex:
		c.faults.forgetCaches(x.Pool)
	case engines.Router:
		return c.faults.restartRouters(x.Pool)
	case engines.Rolling:
		return c.faults.beginRollout(x, hit)
	case engines.Role:
		return c.faults.changeRoles(x, hit)
	}
	if x.For >= 0 && x.Kind != engines.Hangs && x.Kind != engines.NoIndex {
		c.agenda.schedule(c.now+x.For, &faultEnds{x, hit})
	}
	return nil
}

// workersHit returns the workers that a fault hits, starting with the entry pool.
func (f *faults) workersHit(x *fault) []*worker {
	var hit []*worker
	for _, p := range f.c.pools {
		for _, w := range p.workers {
			if w.isUp() && x.Hits(f.c.Faults, p.Index, w.id) {
				hit = append(hit, w)
			}
		}
	}
	return hit
}

// noteIncident records an incident and returns its number.
func (f *faults) noteIncident(what string, hit []*worker) int {
	x := harness.Incident{At: f.c.now, What: what}
	for _, w := range hit {
		x.Workers[w.pool.Index] = append(x.Workers[w.pool.Index], w.id)
	}
	f.c.incidents = append(f.c.incidents, x)
	return f.c.Collector.BeginEvent()
}

// killLater kills workers when the router detects their death. Until the detection, active and leaving workers hang.
// At the detection, these workers lose their requests.
func (f *faults) killLater(x *fault, hit []*worker) error {
	detect := f.c.lives.rules.Detect
	if detect == 0 {
		return f.c.lives.killWorkers(hit, x.Back, cause{event: x.number})
	}
	var now, later []*worker
	for _, w := range hit {
		switch {
		case !w.isUp():
			now = append(now, w)
		case !w.died:
			f.c.lives.hangWorker(w, detect)
			w.died = true
			later = append(later, w)
		}
	}
	if len(later) > 0 {
		f.c.agenda.schedule(f.c.now+detect, &deathNoticed{x, later, detect})
	}
	return f.c.lives.killWorkers(now, x.Back, cause{event: x.number})
}

// deathNoticed removes dead workers from their routers. The time until a worker returns counts from its death.
type deathNoticed struct {
	*fault
	hit    []*worker
	detect sim.Time
}

func (x *deathNoticed) happen(c *cluster) error {
	dead := slices.DeleteFunc(x.hit, func(w *worker) bool { return !w.isUp() || !w.died })
	back := x.Back
	if back >= 0 {
		back = (back - x.detect).Max0()
	}
	return c.lives.killWorkers(dead, back, cause{event: x.number})
}

// faultEnds ends the effect of a fault, unless a later fault has replaced it.
type faultEnds struct {
	*fault
	hit []*worker
}

func (x *faultEnds) happen(c *cluster) error {
	if x.Kind == engines.Link && c.faults.linkBy == x.number {
		c.handover.setLinkShare(0)
	}
	for _, w := range x.hit {
		if x.Kind == engines.Slows && w.slowedBy == x.number && w.core != nil {
			c.lives.slowWorker(w, 1)
		}
	}
	return nil
}

// forgetCaches clears what the routers of a pool, or of all pools, know of caches.
func (f *faults) forgetCaches(pool int) {
	for _, p := range f.c.pools {
		for _, w := range p.workers {
			if pool == engines.Anywhere || p.Index == pool {
				p.Router.Forget(w.id)
			}
		}
	}
}

// restartRouters replaces the router of a pool, or of all pools, by a router that knows only the workers. Requests
// that the old router held enter the new router.
func (f *faults) restartRouters(pool int) error {
	for _, p := range f.c.pools {
		if pool != engines.Anywhere && p.Index != pool {
			continue
		}
		held := p.Router.Waiting(nil)
		if err := p.RestartRouter(); err != nil {
			return err
		}
		for _, w := range p.workers {
			if err := p.agreeOn(w); err != nil {
				return err
			}
		}
		for _, id := range held {
			if err := f.c.enterPool(p, f.c.Requests.Get(int(id))); err != nil {
				return err
			}
		}
	}
	return nil
}

// agreeOn registers w with a new router, which already knows the initial workers. A leaving worker still reports its
// cache.
func (p *pool) agreeOn(w *worker) error {
	known := int(w.id) < p.Count
	if !known && w.isUp() {
		if err := p.Router.AddWorker(w.id); err != nil {
			return err
		}
		known = true
	}
	if known && w.state != active {
		if err := p.Router.RemoveWorker(w.id); err != nil {
			return err
		}
	}
	p.Router.Forget(w.id)
	return nil
}

// beginRollout drains the first N workers of a rolling update.
func (f *faults) beginRollout(x *fault, all []*worker) error {
	x.left = slices.Clone(all)
	for range x.N {
		if err := f.continueRollout(x); err != nil {
			return err
		}
	}
	return nil
}

// rolloutContinues continues a rolling update after a worker has returned.
type rolloutContinues struct{ *fault }

func (x rolloutContinues) happen(c *cluster) error { return c.faults.continueRollout(x.fault) }

// continueRollout drains the next active worker.
func (f *faults) continueRollout(x *fault) error {
	for len(x.left) > 0 {
		w := x.left[0]
		x.left = x.left[1:]
		if w.state != active {
			continue
		}
		back := x.Back
		if back < 0 {
			_, back = w.pool.drawStartup()
		}
		return f.c.lives.drainWorker(w, back, rolloutContinues{x})
	}
	return nil
}

// changeRoles drains the workers of the fault, or the N latest workers of one pool. The drained workers then serve in
// the other pool.
func (f *faults) changeRoles(x *fault, hit []*worker) error {
	hit = slices.DeleteFunc(hit, func(w *worker) bool { return w.state != active })
	if len(x.Workers) == 0 {
		hit = hit[max(0, len(hit)-x.N):]
	}
	for _, w := range hit {
		w.then = &newRole{f.c.pools[1-w.pool.Index], x.Back}
		if err := f.c.fleet.dismissWorker(w); err != nil {
			return err
		}
		if err := f.c.lives.restartIfGone(w); err != nil {
			return err
		}
	}
	return nil
}

// newRole starts a worker in another pool, after it has left its pool. The delay is back; engines.Forever: the
// startup time of a new worker.
type newRole struct {
	pool *pool
	back sim.Time
}

func (x *newRole) happen(c *cluster) error {
	if err := c.fleet.launchWorker(x.pool, x.back); err != nil {
		return err
	}
	return c.openPool(x.pool)
}
