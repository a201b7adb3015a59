package offline

import (
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
)

// cluster implements harness.Carrier for its pools.
var _ harness.Carrier = (*cluster)(nil)

// Submit gives a placed request to its worker.
func (c *cluster) Submit(to *harness.Pool, _ sim.Time, placed *router.Placement, q *sim.Request) error {
	w := c.pools[to.Index].workers[placed.Worker]
	if c.handover.PD != nil && to.Index == 1 {
		if bound, err := c.handover.bindDecode(w, placed); bound || err != nil {
			return err
		}
	}
	c.seatOn(w, placed, q)
	return nil
}

// seatOn submits a request to worker w, now.
func (c *cluster) seatOn(w *worker, placed *router.Placement, q *sim.Request) {
	now, p := c.now, w.pool
	if p.Index == 0 {
		c.window.AddPlaced(placed)
		c.flow.AddPlaced(placed.Blocks, placed.Overlap)
	}
	c.inFlight++
	c.Routed(p.Role, now, placed)
	if w.busy && w.pass.Count > 1 {
		c.cutRun(w, w.countBegun(now, c.instant.irregular))
	}
	if w.busy && w.pass.Waits {
		c.endWait(w)
	}
	if c.lives.tracked {
		c.lives.seat(w, q.ID)
	}
	w.core.Submit(q)
	if p.due.at != nil {
		p.due.at[w.id], p.due.least[w.id/dueGroup] = 0, 0
	}
	if !w.busy && !w.hung {
		w.since = now
		p.markIdle(w)
	}
}

// HandOver sends a request from the prefill pool to the decode pool.
func (c *cluster) HandOver(p *harness.Pool, id sim.RequestID, at, delay sim.Time) error {
	if c.handover.PD != nil {
		return c.handover.sendToDecode(id, delay)
	}
	if delay <= 0 {
		return c.enterDecode(id)
	}
	c.transit++
	c.pending++
	c.events.push(event{at: at + delay, order: c.nextOrder(), kind: handoffDone, request: id})
	return nil
}

// enterDecode brings a request to the router of the decode pool, after its transfer.
func (c *cluster) enterDecode(id sim.RequestID) error {
	p := c.pools[1]
	if c.clients.hasHungUp(id) {
		return c.clients.endAttempt(&leaver{id: id, pool: c.pools[0], worker: collector.Nowhere}, collector.Lost, 0)
	}
	p.entered++
	p.prompts += c.Requests.Get(int(id)).InputTokens
	return c.enterPool(p, c.Requests.Get(int(id)))
}

// Complete ends a request that has its last token.
func (c *cluster) Complete(id sim.RequestID, at sim.Time) error {
	ttft, itl, known := c.Collector.Latencies(id)
	q := c.Requests.Get(int(id))
	c.window.AddFinished(q, ttft, itl, known)
	c.flow.AddFinished(q.InputTokens, q.OutputTokens)
	return c.finishRequest(id, at)
}

// TurnAway ends a request that is shed.
func (c *cluster) TurnAway(id sim.RequestID, at sim.Time) error {
	x := leaver{id: id, pool: c.pools[0], worker: collector.Nowhere}
	if c.clients.rules != nil {
		return c.clients.endAttempt(&x, collector.Shed, 0)
	}
	c.lives.showLeft(&x, collector.Shed, false)
	c.Collector.GiveUp(id, collector.Shed, 0, 0)
	return c.finishRequest(id, at)
}

// Refused ends the replay with the error.
func (c *cluster) Refused(_ sim.RequestID, err error) error { return err }

// applyPass applies the effects of w's pass, which has ended.
func (c *cluster) applyPass(w *worker) error {
	p := &w.pass
	if p.KVAtEnd && w.core != nil {
		w.core.ReportIdle(p)
	}
	c.Passed(w.pool.Role, w.id, p)
	if p.KVAtEnd {
		if err := c.showRouter(w); err != nil {
			return err
		}
	}
	for i := range p.Marks {
		if p.Marks[i].Last {
			c.inFlight--
			if c.lives.tracked {
				c.lives.unseat(p.Marks[i].Request)
			}
		}
	}
	for i := range p.Marks {
		if err := w.pool.Mark(c.now, c.now, &p.Marks[i]); err != nil {
			return err
		}
	}
	return nil
}
