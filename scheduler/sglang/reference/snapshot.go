package reference

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// keepView stores the data of the pass for planners, before its decode step.
func (c *Core) keepView() {
	if !c.Planner {
		return
	}
	c.view = scheduler.Snapshot{}
	for i := range c.batch {
		e := &c.batch[i]
		tokens := e.tokens + e.before - e.held // including tokens found in the cache
		c.view.Prefill.Add(tokens, float64(e.request.InputTokens))
		c.view.PrefillCached += e.before
	}
	for _, r := range c.running {
		c.view.Decode.Add(c.lengthOf(r), float64(c.lengthOf(r)))
	}
}

// Snapshot returns a planner's view of the latest pass. Snapshot requires Config.Planner.
func (c *Core) Snapshot(*scheduler.Pass) scheduler.Snapshot {
	s := c.view
	for _, r := range c.waiting.All() {
		s.AddQueued(r.Request, r.out)
	}
	return s
}

// Progress yields the requests that have gained a token but not their last.
func (c *Core) Progress(yield func(id sim.RequestID, tokens int, last sim.Time)) {
	for _, r := range c.running {
		if n := r.out + c.tokensSince(r); n > 0 {
			yield(r.ID, n, c.lastEnd)
		}
	}
	for _, r := range c.waiting.All() {
		if r.out > 0 {
			yield(r.ID, r.out, r.lastToken)
		}
	}
}

// describeBatch records the computed tokens of each request, before finished requests are released.
func (c *Core) describeBatch(d *scheduler.Detail) {
	if d == nil {
		return
	}
	for i := range c.batch {
		e := &c.batch[i]
		d.Work = append(d.Work, scheduler.NewWork(e.request.Request, e.before, e.tokens))
	}
}

// describeState sets the remaining fields of p.Detail, if there is one.
func (c *Core) describeState(p *scheduler.Pass, prefillEnd sim.Time) {
	d := p.Detail
	if d == nil {
		return
	}
	d.PrefillEnd = prefillEnd
	for _, r := range c.retired {
		d.Lost = append(d.Lost, r.ID)
	}
	d.Running, d.Waiting = len(c.running), c.Load()-len(c.running)
	d.Blocks = c.Pages
	d.Cached = c.evictableTokens() / c.PageTokens
	d.Held = max(0, c.pool-c.free-c.evictableTokens()) / c.PageTokens
}
