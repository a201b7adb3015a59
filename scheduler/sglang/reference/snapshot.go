package reference

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// keepView keeps the view of a planner on the pass, before its decode step.
func (c *Core) keepView() {
	if !c.Planner {
		return
	}
	c.view = scheduler.Snapshot{}
	for i := range c.batch {
		e := &c.batch[i]
		tokens := e.tokens + e.before - e.held // what was found in the cache counts
		c.view.Prefill.Add(tokens, float64(e.request.InputTokens))
		c.view.PrefillCached += e.before
	}
	for _, r := range c.running {
		c.view.Decode.Add(c.lengthOf(r), float64(c.lengthOf(r)))
	}
}

// Snapshot returns what a planner sees of the latest pass. The core must have
// been made with Config.Planner.
func (c *Core) Snapshot(*scheduler.Pass) scheduler.Snapshot {
	s := c.view
	for _, r := range c.waiting.All() {
		s.AddQueued(r.Request, r.out)
	}
	return s
}

// Progress yields the requests that have gained a token and not their last.
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

// describeBatch fills in the computed tokens of each request, before finished requests are released.
func (c *Core) describeBatch(d *scheduler.Detail) {
	if d == nil {
		return
	}
	for i := range c.batch {
		e := &c.batch[i]
		d.Work = append(d.Work, scheduler.NewWork(e.request.Request, e.before, e.tokens))
	}
}

// describeState fills in the rest of p.Detail, if there is one.
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
