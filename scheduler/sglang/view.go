package sglang

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// describeWork records the work of each request when the pass begins, and stores the data for planners.
func (c *Core) describeWork(d *scheduler.Detail) {
	if c.Planner {
		c.view = scheduler.Snapshot{}
	}
	for i := range c.next.batch {
		e := &c.next.batch[i]
		if e.isVoid() {
			continue
		}
		if c.Planner {
			c.view.Prefill.Add(e.tokens, float64(e.InputTokens))
			c.view.PrefillCached += e.before
		}
		if d != nil {
			d.Work = append(d.Work, scheduler.NewWork(e.Request, e.before, e.tokens))
		}
	}
	if c.Planner && c.next.decodes > 0 {
		for _, r := range c.batch.running {
			c.view.Decode.Add(c.batch.lengthOf(r), float64(c.batch.lengthOf(r)))
		}
	}
}

// Snapshot returns a planner's view of the latest pass. Snapshot requires Config.Planner.
func (c *Core) Snapshot(*scheduler.Pass) scheduler.Snapshot {
	s := c.view
	if c.partial != nil {
		s.AddQueued(c.partial.Request, c.partial.out)
	}
	for _, line := range [][]*request{c.queue.waiting.All(), c.retracted, c.arrived} {
		for _, r := range line {
			s.AddQueued(r.Request, r.out)
		}
	}
	return s
}

// Progress yields the requests that have gained a token but not their last.
func (c *Core) Progress(yield func(id sim.RequestID, tokens int, last sim.Time)) {
	tell := func(r *request) {
		if n := c.batch.gainedBy(r); r.place != notRunning && n > 0 {
			yield(r.ID, n, c.lastTokenOf(r))
		} else if r.out > 0 {
			yield(r.ID, r.out, r.lastToken)
		}
	}
	for _, r := range c.batch.running {
		tell(r)
	}
	for _, r := range c.batch.ending {
		if r.place == notRunning {
			tell(r)
		}
	}
	for _, line := range [][]*request{c.queue.waiting.All(), c.retracted, c.arrived} {
		for _, r := range line {
			tell(r)
		}
	}
	if c.partial != nil {
		tell(c.partial)
	}
}

// describeState records the occupancy of the engine after the pass, if p has a Detail.
func (c *Core) describeState(p *scheduler.Pass) {
	d := p.Detail
	if d == nil {
		return
	}
	d.PrefillEnd = p.Start
	if p.PrefillTokens > 0 {
		d.PrefillEnd = p.End
	}
	d.Waiting, d.Running = c.Line()
	d.Blocks = c.Pages
	d.Cached = c.pages.tree.UnlockedPages
	d.Held = c.Pages - c.pages.free/c.PageTokens - d.Cached
}
