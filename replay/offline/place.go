package offline

import (
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// enter brings a request before a pool's router.
func (c *cluster) enter(p *pool, q *sim.Request) error {
	placed, err := p.router.Route(c.now, q, c.placed[:0])
	return c.place(p, placed, err)
}

// place carries out a router's answer, placements in order.
func (c *cluster) place(p *pool, placed []router.Placement, err error) error {
	if err != nil {
		return err
	}
	c.placed = placed
	for i := range placed {
		if p == c.pools[0] {
			c.window.placed(&placed[i])
		}
		c.submit(p, &placed[i])
	}
	return nil
}

// submit gives a placed request to its worker. A prefill worker gets a copy that ends
// with its first token.
func (c *cluster) submit(p *pool, placed *router.Placement) {
	w, q := p.workers[placed.Worker], placed.Request
	c.inFlight++
	c.routed(p.stage, c.now, placed, p.visible)
	if !p.visible {
		q = c.firsts.of(q)
	}
	if w.busy && w.pass.Count > 1 {
		c.cut(w, w.begun(c.now, c.instant.irregular))
	}
	w.core.Submit(q)
	if p.due != nil {
		p.due[w.id] = 0
	}
	if !w.busy {
		w.since = c.now
		w.pool.rest(w)
	}
}

// apply carries the effects of w's pass, which is over.
func (c *cluster) apply(w *worker) error {
	p := &w.pass
	c.passed(w.pool.stage, w.id, p, w.pool.visible)
	if p.KVAtEnd {
		if err := c.observe(w); err != nil {
			return err
		}
	}
	for i := range p.Marks {
		if p.Marks[i].Last {
			c.inFlight--
		}
	}
	for i := range p.Marks {
		if err := c.mark(w.pool, p.Marks[i]); err != nil {
			return err
		}
	}
	return nil
}

// mark carries the effects of a first or last token.
func (c *cluster) mark(p *pool, m scheduler.Mark) error {
	switch {
	case !p.visible:
		return c.prefilled(p, m)
	case m.Last:
		placed, err := p.router.Finished(c.now, m.Request, c.placed[:0])
		if err != nil {
			return err
		}
		ttft, itl, known := c.col.Latencies(m.Request)
		c.window.finished(c.requests[m.Request], ttft, itl, known)
		if err := c.finished(m.Request, c.now); err != nil {
			return err
		}
		return c.place(p, placed, nil)
	case len(c.pools) > 1:
		return nil // the decode router does not hear of first tokens
	}
	placed, err := p.router.PrefillDone(c.now, m.Request, c.placed[:0])
	return c.place(p, placed, err)
}

// prefilled sends a request on from prefill to decode.
func (c *cluster) prefilled(p *pool, m scheduler.Mark) error {
	if !m.Last {
		return nil
	}
	placed, err := p.router.PrefillDone(c.now, m.Request, c.placed[:0])
	if err := c.place(p, placed, err); err != nil {
		return err
	}
	placed, err = p.router.Finished(c.now, m.Request, c.placed[:0])
	if err := c.place(p, placed, err); err != nil {
		return err
	}
	if o := c.cfg.Observer; o != nil {
		o.Handoff(m.Request, c.now, c.now+m.Handoff)
	}
	if m.Handoff <= 0 {
		return c.enter(c.pools[1], c.requests[m.Request])
	}
	c.transit++
	c.pending++
	c.events.push(event{at: c.now + m.Handoff, order: c.order(), kind: handoffDone, request: m.Request})
	return nil
}

// firsts makes copies of requests that end with their first token.
type firsts struct{ free []sim.Request }

// firstsChunk is the number of copies allocated at a time.
const firstsChunk = 256

func (f *firsts) of(q *sim.Request) *sim.Request {
	if len(f.free) == 0 {
		f.free = make([]sim.Request, firstsChunk)
	}
	first := &f.free[0]
	f.free = f.free[1:]
	*first = *q
	first.OutputTokens = 1
	return first
}
