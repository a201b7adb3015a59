package offline

import (
	"fmt"
	"math/rand/v2"

	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// autoscaler reads the workers of a pool at intervals and changes their number. autoscaler is an incident that
// schedules itself again.
type autoscaler struct {
	*autoscale.Config
	pool     *pool
	scaler   autoscale.Scaler
	exporter autoscale.Exporter
	scrape   sim.Time // time of the next scrape
	tick     sim.Time // time of the next decision
	wanted   int      // number of workers that the pool should have
	looks    int      // scrapes so far
	single   bool     // the reports of workers must be known after each pass, not after a run of passes
	output   int      // tokens that workers have produced; counted only if single is set
	chance   *rand.Rand
	rents    []engines.Rent // cost of a worker of each kind
	done     *harness.Scaling
}

// gauge is the report of a worker after its latest pass.
type gauge struct {
	running int
	kv      float64
	pass    *scheduler.Snapshot // nil: no pass has ended, or no autoscaler reads passes
}

// planAutoscalers schedules the autoscalers, starting with the autoscaler of the entry pool.
func (f *fleet) planAutoscalers() error {
	planners, err := f.c.NewPlanners()
	if err != nil {
		return err
	}
	for i, p := range f.c.pools {
		a := f.c.AutoscalerOf(i)
		if a == nil {
			continue
		}
		rents, err := p.Rents(a.Cost)
		if err != nil {
			return err
		}
		if f.c.cfg.seesPasses() && len(p.workers) > 0 && !p.workers[0].core.Able().Has(scheduler.Shows) {
			return fmt.Errorf("scaler: %s reads passes: data-parallel ranks, TensorRT-LLM and engines of programs are not supported with it", a.Kind)
		}
		p.auto = &autoscaler{
			Config: a, pool: p, scaler: f.newScaler(a, p, planners[i]), exporter: autoscale.Exporter{Config: a},
			wanted: p.Count, done: harness.NewScaling(p.Role), rents: rents, chance: sim.NewRand(f.c.Seed, "autoscaler of "+p.Role.String()),
			single: a.SeesKV() || a.SeesTokens() || a.Kind == autoscale.DynamoPlanner || f.c.cfg.Scalers[i] != nil,
		}
		p.auto.planScrape()
		if a.Drain > 0 {
			p.auto.done.Drains = &harness.Drains{Timeout: a.Drain}
		}
		f.c.scaled = append(f.c.scaled, p.auto.done)
		p.noteSize(f.c.now)
		f.c.agenda.schedule(min(p.auto.scrape, p.auto.tick), p.auto)
	}
	return nil
}

// newScaler returns the scaler of a pool.
func (f *fleet) newScaler(a *autoscale.Config, p *pool, planned autoscale.Scaler) autoscale.Scaler {
	switch {
	case f.c.cfg.Scalers[p.Index] != nil:
		return f.c.cfg.Scalers[p.Index]
	case a.Kind == autoscale.Foreknown:
		return autoscale.NewPerfect(a, f.c.cfg.Foreseen[p.Index], sim.Time(p.Engine.StartupSeconds*1000.0))
	case a.Kind == autoscale.DynamoPlanner:
		return planned
	}
	return autoscale.New(a)
}

// planScrape sets the time of the next scrape.
func (a *autoscaler) planScrape() {
	a.looks++
	a.scrape = sim.Time(a.looks) * a.Interval
	if a.Jitter > 0 {
		a.scrape += sim.Time(float64(a.chance.Float64() * float64(a.Jitter)))
	}
}

// happen scrapes if a scrape is due, then asks the scaler if a decision is due.
func (a *autoscaler) happen(c *cluster) error {
	if c.agenda.isPast() {
		return nil
	}
	a.lookIfDue(c)
	if a.tick <= c.now {
		a.tick += a.Sync
		if err := c.fleet.rescale(a); err != nil {
			return err
		}
	}
	if c.lives.isAnyoneClosed() && c.lives.isStranded() {
		if _, err := c.lives.loseStranded(); err != nil {
			return err
		}
	}
	c.agenda.schedule(min(a.scrape, a.tick), a)
	return nil
}

// lookIfDue scrapes the pool if a scrape is due.
func (a *autoscaler) lookIfDue(c *cluster) {
	if a.scrape <= c.now {
		a.exporter.Add(c.fleet.scrapeWorkers(a.pool))
		a.planScrape()
	}
}

// showPool returns the signals that the scaler of a pool receives now.
func (f *fleet) showPool(a *autoscaler) autoscale.Signals {
	seen := a.exporter.Latest(f.c.now)
	s := autoscale.Signals{Now: f.c.now, Workers: a.wanted, Scrape: seen.Keep(a.pool.isActive)}
	s.Missing = f.countRunning(a.pool) - s.Ready
	size := a.pool.countSizes(f.c.now)
	s.Starting, s.Leaving = size.Starting, size.Leaving
	return s
}

// rescale asks the scaler for the number of workers, and resizes the pool to it.
func (f *fleet) rescale(a *autoscaler) error {
	s := f.showPool(a)
	var other *pool
	if f.c.Disaggregated() {
		s.Pool, other = a.pool.Role.String(), f.c.pools[1-a.pool.Index]
		if other.auto != nil {
			s.Other = other.auto.wanted
			if a.Kind == autoscale.DynamoPlanner {
				other.auto.lookIfDue(f.c)
				peer := f.showPool(other.auto)
				s.Peer = &peer
			}
		}
	}
	n := a.Bound(a.scaler.Want(&s))
	if x, ok := a.scaler.(autoscale.Fallible); ok && x.Err() != nil {
		return x.Err()
	}
	if n == a.wanted {
		return nil
	}
	a.want(f.c.now, n, a.explain(), false)
	if err := f.resizePool(a.pool, n); err != nil {
		return err
	}
	if err := f.c.openPool(a.pool); err != nil {
		return err
	}
	if other != nil && other.auto != nil && other.auto.Kind == autoscale.ByRatio {
		return f.rescale(other.auto)
	}
	return nil
}

// explain returns the reason for the latest decision of the scaler, "" if it gives no reason.
func (a *autoscaler) explain() string {
	if x, ok := a.scaler.(autoscale.Explainer); ok {
		return x.Why()
	}
	return ""
}

// countRunning counts the workers with running servers, including workers that get no requests yet.
func (f *fleet) countRunning(p *pool) int {
	n := 0
	for _, w := range p.workers {
		if w.state == active || w.state == starting && w.runs <= f.c.now {
			n++
		}
	}
	return n
}

// isActive reports whether a worker gets requests.
func (p *pool) isActive(id sim.WorkerID) bool { return p.workers[id].state == active }

// want records n as the number of workers that the pool should have from now on. given reports that n is set from
// outside.
func (a *autoscaler) want(now sim.Time, n int, why string, given bool) {
	if n != a.wanted {
		a.done.Acts = append(a.done.Acts, harness.ScalingAct{At: now, From: a.wanted, To: n, Why: why, Given: given})
		a.wanted = n
	}
}

// replaceDead starts new workers for workers that have died for good, in pools with an autoscaler.
func (f *fleet) replaceDead() error {
	for _, p := range f.c.pools {
		if p.auto == nil {
			continue
		}
		if err := f.resizePool(p, p.auto.wanted); err != nil {
			return err
		}
		if err := f.c.openPool(p); err != nil {
			return err
		}
	}
	return nil
}

// scrapeWorkers reads the reports of the active workers of a pool.
func (f *fleet) scrapeWorkers(p *pool) autoscale.Scrape {
	s := autoscale.Scrape{At: f.c.now, Arrived: f.c.Collector.Len(), Input: p.prompts, Held: p.Router.Queued() + len(p.parked)}
	if p.auto.single {
		s.Output = p.auto.output
	}
	s.Traffic = f.c.flow
	if p.Role == scheduler.Decode || f.c.handover.choose != nil {
		s.Arrived = p.entered
	}
	s.Traffic.Requests = s.Arrived
	for _, w := range p.workers {
		if w.state != active {
			continue
		}
		if w.busy && w.countBegun(f.c.now, true) > 1 {
			w.keepGauge() // a pass of the run is over
		}
		running := min(w.gauge.running, len(w.has))
		s.Add(autoscale.Gauge{Worker: w.id, Running: running, Waiting: len(w.has) - running, KV: w.gauge.kv, Pass: w.gauge.pass})
	}
	return s
}

// reportToScaler passes the report of w to the autoscaler after a pass of w.
func (w *worker) reportToScaler() {
	w.keepGauge()
	w.gauge.pass = w.shown
	w.pool.auto.output += w.pass.Tokens * w.pass.Count
}

// keepGauge keeps the report of w after its pass.
func (w *worker) keepGauge() {
	if d := w.pass.Detail; d != nil {
		w.gauge.running, w.gauge.kv = d.Running, float64(d.Held)/float64(max(d.Blocks, 1))
	}
}

// drawStartup returns the time until the server of a new worker runs, and the time until the worker gets requests.
func (p *pool) drawStartup() (runs, ready sim.Time) {
	if p.auto != nil && !p.auto.Startup.IsEmpty() {
		return p.auto.Startup.Draw(p.auto.chance)
	}
	t := sim.Time(p.Engine.StartupSeconds * 1000.0)
	return t, t
}

// noteSize records the number of workers of p after a change.
func (p *pool) noteSize(now sim.Time) {
	if p.auto != nil {
		p.auto.done.SetSize(p.countSizes(now))
	}
}

// countSizes counts the ready, starting and leaving workers, and adds up their cost.
func (p *pool) countSizes(now sim.Time) harness.PoolSize {
	size := harness.PoolSize{At: now}
	for _, w := range p.workers {
		switch w.state {
		case active:
			size.Ready++
		case starting:
			size.Starting++
		case leaving:
			size.Leaving++
		case gone:
			continue
		}
		rent := p.auto.rents[p.KindOf(w.id)]
		size.GPUs += rent.GPUs
		size.PerHour += rent.PerHour
	}
	return size
}
