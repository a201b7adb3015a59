package offline

import (
	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// autoscaler looks at the workers of a pool now and then, and changes their number. It is an
// incident that puts itself on the agenda again.
type autoscaler struct {
	*autoscale.Config
	pool     *pool
	scaler   autoscale.Scaler
	exporter autoscale.Exporter
	scrape   sim.Time // when it looks next
	tick     sim.Time // when it acts next
	wanted   int      // workers
	single   bool     // how full workers are has to be known after each pass, not after a run of them
	done     *harness.Scaling
}

// gauge is what a worker says of itself: as it is after its latest pass.
type gauge struct {
	running int
	kv      float64
}

// planAutoscalers puts the autoscalers on the agenda, that of the entry pool first.
func (c *cluster) planAutoscalers() {
	for i, p := range c.pools {
		a := c.AutoscalerOf(i)
		if a == nil {
			continue
		}
		scaler := c.cfg.Scaler
		if scaler == nil {
			scaler = autoscale.New(a)
		}
		p.auto = &autoscaler{
			Config: a, pool: p, scaler: scaler, exporter: autoscale.Exporter{Config: a}, scrape: a.Interval, tick: a.Sync,
			wanted: p.Count, single: a.SeesKV() || c.cfg.Scaler != nil, done: harness.NewScaling(p.Role, a.Cost),
		}
		c.scaled = append(c.scaled, p.auto.done)
		p.noteSize(c.now)
		c.schedule(min(p.auto.scrape, p.auto.tick), p.auto)
	}
}

// happen scrapes and acts, in this order, as far as either is due.
func (a *autoscaler) happen(c *cluster) error {
	if a.scrape <= c.now {
		a.exporter.Add(c.scrapeWorkers(a.pool))
		a.scrape += a.Interval
	}
	if a.tick <= c.now {
		a.tick += a.Sync
		if err := c.rescale(a); err != nil {
			return err
		}
	}
	c.schedule(min(a.scrape, a.tick), a)
	return nil
}

// rescale asks the scaler how many workers there should be, and begins to bring that about.
func (c *cluster) rescale(a *autoscaler) error {
	s := autoscale.Signals{Now: c.now, Workers: a.wanted, Scrape: a.exporter.Latest(c.now)}
	if c.Disaggregated() {
		s.Pool = a.pool.Role.String()
	}
	n := min(max(a.scaler.Want(&s), a.Min), a.Max)
	if n == a.wanted {
		return nil
	}
	a.done.Acts = append(a.done.Acts, harness.ScalingAct{At: c.now, From: a.wanted, To: n})
	a.wanted = n
	if err := c.resizePool(a.pool, n); err != nil {
		return err
	}
	return c.openPool(a.pool)
}

// scrapeWorkers reads what the workers of a pool that get requests say of themselves.
func (c *cluster) scrapeWorkers(p *pool) autoscale.Scrape {
	s := autoscale.Scrape{At: c.now, Arrived: len(c.Requests), Held: p.Router.Queued() + len(p.parked)}
	if p.Role == scheduler.Decode {
		s.Arrived = p.entered
	}
	for _, w := range p.workers {
		if w.state != active {
			continue
		}
		if w.busy && w.countBegun(c.now, true) > 1 {
			w.keepGauge() // a pass of the run is over
		}
		running := min(w.gauge.running, len(w.has))
		s.Ready++
		s.Running += running
		s.Waiting += len(w.has) - running
		s.KV += w.gauge.kv
	}
	return s
}

// keepGauge keeps what w says of itself after its pass.
func (w *worker) keepGauge() {
	if d := w.pass.Detail; d != nil {
		w.gauge = gauge{d.Running, float64(d.Held) / float64(max(d.Blocks, 1))}
	}
}

// startupTime returns how long a new worker takes to start.
func (p *pool) startupTime() sim.Time {
	if p.auto != nil {
		if t := p.auto.Startup.Sum(); t > 0 {
			return t
		}
	}
	return sim.Time(p.Engine.StartupSeconds * 1000.0)
}

// noteSize notes how many workers there are, after a change of them.
func (p *pool) noteSize(now sim.Time) {
	if p.auto == nil {
		return
	}
	size := harness.PoolSize{At: now}
	for _, w := range p.workers {
		switch w.state {
		case active:
			size.Ready++
		case starting:
			size.Starting++
		case leaving:
			size.Leaving++
		}
	}
	p.auto.done.SetSize(size)
}
