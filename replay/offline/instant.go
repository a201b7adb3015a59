package offline

import "github.com/replay-llm/replay/sim"

// instant is how far the effects of the current instant have gone, as far as it
// matters for the order of events.
//
// A run of passes hides where one ends and the next begins. That is safe while an instant goes its usual way: all
// passes that end are applied, requests arrive, then workers start passes in the order of their ids. It is false if a
// pass takes no time, or if an event of another kind is due. Then runs with a boundary at this instant are cut there,
// and all later events are counted one by one.
type instant struct {
	at        sim.Time
	irregular bool
	made      uint64 // events ranked so far
}

// cutAtBoundaries makes the boundaries of runs that fall on this instant events, when
// one of another kind is due: which comes first matters then.
func (c *cluster) cutAtBoundaries() {
	if c.pending == 0 || !c.isOtherDue() {
		return
	}
	for _, p := range c.pools {
		for _, w := range p.workers {
			if keep, ok := w.atBoundary(c.now); ok {
				c.trimRun(w, keep)
			}
		}
	}
}

// isOtherDue reports whether an event is due that is not the end of a pass.
func (c *cluster) isOtherDue() bool {
	for i := range c.events {
		if e := &c.events[i]; e.at == c.now && e.kind != passEnds {
			return true
		}
	}
	return false
}

// turnIrregular begins to count, because w has run a pass that took no time.
// Workers after w have not started passes at this instant yet, so runs of theirs
// that continue here must not have.
func (c *cluster) turnIrregular(w *worker) {
	if c.instant.irregular {
		return
	}
	for _, p := range c.pools {
		for _, other := range p.workers {
			if other.rank() <= w.rank() {
				continue
			}
			if keep, ok := other.atBoundary(c.now); ok {
				c.cutRun(other, keep)
			}
		}
	}
	c.instant.irregular = true
}

// atBoundary reports whether a pass of w's run ends now and the next one begins.
// keep is the number of passes up to then.
func (w *worker) atBoundary(now sim.Time) (keep int, ok bool) {
	if !w.busy || w.pass.Count == 1 || now <= w.pass.Start || now >= w.pass.End {
		return 0, false
	}
	keep = w.countBegun(now, false)
	return keep, keep < w.pass.Count && w.pass.Begins(keep) == now
}

// cutRun ends the run in progress on w after keep passes. One that is over now was
// over before anything else happened at this instant, and has no effects.
func (c *cluster) cutRun(w *worker, keep int) {
	if keep == w.pass.Count {
		return
	}
	c.trimRun(w, keep)
	if w.pass.End == c.now {
		if c.hasEvent(w) {
			c.events.removeAt(w.at)
		}
		c.Passed(w.pool.Role, w.id, &w.pass)
		w.pool.markIdle(w)
	}
}

// trimRun ends the run in progress on w after keep passes and moves its end among
// the events, if it is there.
func (c *cluster) trimRun(w *worker, keep int) {
	w.core.Cut(&w.pass, keep)
	if !c.hasEvent(w) {
		return
	}
	e := &c.events[w.at]
	e.at, e.order = w.pass.End, w.endOrder()
	c.events.restoreAt(w.at)
}

// endWait ends now what w waits for. Its end is among the events unless c is driven lazily.
func (c *cluster) endWait(w *worker) {
	w.pass.EndWait(c.now)
	if c.hasEvent(w) {
		c.events[w.at].at = w.pass.End
		c.events.restoreAt(w.at)
	}
}

// hasEvent reports whether the end of w's pass is among the events: not where c is driven lazily.
func (c *cluster) hasEvent(w *worker) bool {
	return w.at < len(c.events) && c.events[w.at].worker == w
}

// passOrder is the place of the end of the pass that w starts now.
func (c *cluster) passOrder(w *worker) order {
	if c.instant.irregular {
		return c.nextOrder()
	}
	return order{made: c.now, rank: rankPass + w.rank()}
}

// nextOrder is the place of an event that is made now and is not the end of a pass
// started in the usual way.
func (c *cluster) nextOrder() order {
	c.instant.made++
	if c.instant.irregular {
		return order{made: c.now, rank: rankCounted + c.instant.made}
	}
	return order{made: c.now, rank: c.instant.made}
}
