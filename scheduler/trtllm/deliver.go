package trtllm

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// deliver gives a token to each request of a pass that has ended.
func (c *Core) deliver(f *flight, p *scheduler.Pass) {
	for _, all := range [][]visit{f.ctx, f.gen} {
		for i := range all {
			if v := &all[i]; v.samples {
				c.give(v.request, p)
			}
		}
	}
}

// give gives r a token.
func (c *Core) give(r *request, p *scheduler.Pass) {
	if r.state == done || r.given() >= r.OutputTokens {
		return
	}
	r.known++
	n := r.given()
	m := p.AddToken(r.ID, n, r.OutputTokens, r.lastAt, r.pass != c.passes-1)
	if c.Role == scheduler.Prefill && m != nil && m.Last {
		m.Handoff = c.Transfer.Delay(r.InputTokens)
	}
	r.pass, r.lastAt = c.passes, p.End
	if n >= r.OutputTokens || n >= r.limit {
		r.state = done
	}
}

// finish removes the requests that have ended, and stores the prompts of a pass in the cache.
func (c *Core) finish(f *flight, at sim.Time) {
	c.closeEnded(at)
	if !c.Reuse {
		return
	}
	for i := range f.ctx {
		r := f.ctx[i].request
		if r.blocks == 0 || r.state == done {
			continue
		}
		n := r.known - 1
		if !c.StoreWhole {
			n = min(n, r.pos)
		}
		c.pool.store(r, n, false)
	}
}

// closeEnded removes the requests that have ended.
func (c *Core) closeEnded(at sim.Time) {
	ended := false
	for _, r := range c.active {
		switch {
		case r.state != done:
			continue
		case c.Role == scheduler.Prefill:
			c.handOver(r, at)
		default:
			c.pool.close(r)
			c.forget(r)
		}
		ended = true
	}
	if ended {
		c.active = slices.DeleteFunc(c.active, func(r *request) bool { return r.state == done })
	}
}

// Cancel removes a request, waiting or active.
func (c *Core) Cancel(now sim.Time, id sim.RequestID, p *scheduler.Pass) bool {
	p.Reset(now)
	c.pool.now = now
	for _, r := range c.line.All() {
		if r.ID == id {
			c.line.Remove(r)
			c.forget(r)
			c.endPass(p)
			return true
		}
	}
	at := slices.IndexFunc(c.active, func(r *request) bool { return r.ID == id })
	if at < 0 {
		return false
	}
	r := c.active[at]
	c.active = slices.Delete(c.active, at, at+1)
	is := func(v visit) bool { return v.request == r }
	f := c.next
	f.ctx, f.gen = slices.DeleteFunc(f.ctx, is), slices.DeleteFunc(f.gen, is)
	f.planned = len(f.ctx)+len(f.gen) > 0
	r.state = done
	c.pool.close(r)
	c.forget(r)
	c.endPass(p)
	return true
}

// Progress yields the requests that have gained a token but not their last.
func (c *Core) Progress(yield func(id sim.RequestID, tokens int, last sim.Time)) {
	for _, r := range c.active {
		if n := r.given(); n > 0 {
			yield(r.ID, n, r.lastAt)
		}
	}
}
