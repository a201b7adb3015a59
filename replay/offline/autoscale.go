package offline

import (
	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/sim"
)

// autoscaler looks at the workers now and then, and changes their number. It is an incident
// that puts itself on the agenda again.
type autoscaler struct {
	*autoscale.Config
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

// planAutoscale puts the autoscaler on the agenda.
func (c *cluster) planAutoscale() {
	a := c.Autoscale
	if a == nil {
		return
	}
	scaler := c.cfg.Scaler
	if scaler == nil {
		scaler = autoscale.New(a)
	}
	c.auto = &autoscaler{
		Config: a, scaler: scaler, exporter: autoscale.Exporter{Config: a}, scrape: a.Interval, tick: a.Sync,
		wanted: c.pools[0].Count, single: a.SeesKV() || c.cfg.Scaler != nil, done: harness.NewScaling(a.Cost),
	}
	c.scaled = c.auto.done
	c.noteSize()
	c.schedule(min(c.auto.scrape, c.auto.tick), c.auto)
}

// happen scrapes and acts, in this order, as far as either is due.
func (a *autoscaler) happen(c *cluster) error {
	if a.scrape <= c.now {
		a.exporter.Add(c.scrapeWorkers())
		a.scrape += a.Interval
	}
	if a.tick <= c.now {
		a.tick += a.Sync
		if err := c.rescale(); err != nil {
			return err
		}
	}
	c.schedule(min(a.scrape, a.tick), a)
	return nil
}

// rescale asks the scaler how many workers there should be, and begins to bring that about.
func (c *cluster) rescale() error {
	a, p := c.auto, c.pools[0]
	s := autoscale.Signals{Now: c.now, Workers: a.wanted, Scrape: a.exporter.Latest(c.now)}
	n := min(max(a.scaler.Want(&s), a.Min), a.Max)
	if n == a.wanted {
		return nil
	}
	a.done.Acts = append(a.done.Acts, harness.ScalingAct{At: c.now, From: a.wanted, To: n})
	a.wanted = n
	if err := c.resizePool(p, n); err != nil {
		return err
	}
	return c.openPool(p)
}

// scrapeWorkers reads what the workers that get requests say of themselves.
func (c *cluster) scrapeWorkers() autoscale.Scrape {
	p := c.pools[0]
	s := autoscale.Scrape{At: c.now, Arrived: len(c.Requests), Held: p.Router.Queued() + len(p.parked)}
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

// startupTime returns how long a new worker of a pool takes to start.
func (c *cluster) startupTime(p *pool) sim.Time {
	if c.auto != nil {
		if t := c.auto.Startup.Sum(); t > 0 {
			return t
		}
	}
	return sim.Time(p.Engine.StartupSeconds * 1000.0)
}

// noteSize notes how many workers there are, after a change of them.
func (c *cluster) noteSize() {
	if c.auto == nil {
		return
	}
	size := harness.PoolSize{At: c.now}
	for _, w := range c.pools[0].workers {
		switch w.state {
		case active:
			size.Ready++
		case starting:
			size.Starting++
		case leaving:
			size.Leaving++
		}
	}
	c.auto.done.SetSize(size)
}
