package offline

import (
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// warmWorkers fills the caches of the workers at the start and reports them to the routers.
func (c *cluster) warmWorkers() error {
	if c.Warm == nil {
		return nil
	}
	var pass scheduler.Pass
	for i, p := range c.pools {
		for _, w := range p.workers {
			pass.Reset(0)
			if err := c.WarmWorker(i, w.id, w.core, &pass); err != nil {
				return err
			}
			if err := p.LearnCache(w.id, &pass); err != nil {
				return err
			}
		}
	}
	return nil
}

// warmAlone fills the cache of a worker under a router that does not read caches.
func (r *run) warmAlone(id sim.WorkerID, core scheduler.Core) error {
	if r.Warm == nil {
		return nil
	}
	return r.WarmWorker(0, id, core, new(scheduler.Pass))
}

// savesLater reports whether caches are saved during the replay.
func (r *run) savesLater() bool { return r.Save != nil && r.Save.At > 0 }

// saveAlone saves the cache of a worker at the end of the replay, if r.Save is set.
func (r *run) saveAlone(id sim.WorkerID, core scheduler.Core) {
	if r.Save == nil {
		return
	}
	if r.saver == nil {
		r.saver = r.NewSaver()
	}
	r.saver.Add(0, id, core)
}

// saveWorkers saves the current caches of all workers.
func (c *cluster) saveWorkers() {
	if c.Save == nil || c.saver != nil {
		return
	}
	c.saver = c.NewSaver()
	for i, p := range c.pools {
		for _, w := range p.workers {
			if w.core != nil {
				c.saver.Add(i, w.id, w.core)
			}
		}
	}
}

// saveAsPlanned saves the caches at their planned instant.
func (c *cluster) saveAsPlanned() {
	if c.saveAt > 0 && c.saveAt <= c.now {
		c.saveAt = 0
		c.saveWorkers()
	}
}

// addCaches adds the initial and saved caches to a result.
func (r *run) addCaches(to *harness.Result) {
	to.Warm = r.WarmStart()
	if r.saver == nil {
		return
	}
	to.Caches = r.saver.File()
	to.Caches.At = r.Save.At
}
