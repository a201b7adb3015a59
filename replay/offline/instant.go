package offline

import "github.com/replay-llm/replay/sim"

// instant is the state of the current instant that determines the order of events.
//
// A run of passes hides the boundary between two passes. A hidden boundary is safe in a regular instant: all passes
// that end are applied, requests arrive, then workers start passes in the order of their ids. An instant is irregular
// if a pass takes no time, or if an event of another kind is due. Runs with a boundary at an irregular instant are
// cut there, and all later events are counted one by one.
type instant struct {
	at        sim.Time
	irregular bool
	made      uint64 // events ranked so far
}

// cutAtBoundaries cuts the runs with a boundary at this instant, if an event of another kind is due. The boundaries
// become events, because the order of events matters then.
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

// isOtherDue reports whether an event other than the end of a pass is due.
func (c *cluster) isOtherDue() bool {
	for i := range c.events {
		if e := &c.events[i]; e.at == c.now && e.kind != passEnds {
			return true
		}
	}
	return false
}

// turnIrregular makes the instant irregular, because w has run a pass that took no time. Workers after w have not
// started passes at this instant yet, so it cuts their runs with a boundary here.
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

// atBoundary reports whether a pass of w's run ends now and the next pass begins. keep is the number of passes that
// have ended by now.
func (w *worker) atBoundary(now sim.Time) (keep int, ok bool) {
	if !w.busy || w.pass.Count == 1 || now <= w.pass.Start || now >= w.pass.End {
		return 0, false
	}
	keep = w.countBegun(now, false)
	return keep, keep < w.pass.Count && w.pass.Begins(keep) == now
}

// cutRun ends the run in progress on w after keep passes. Kept passes that end now count as ended before all other
// effects of this instant, so they need no event.
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

// trimRun ends the run in progress on w after keep passes, and moves the event of its end if it has one.
func (c *cluster) trimRun(w *worker, keep int) {
	w.core.Cut(&w.pass, keep)
	if !c.hasEvent(w) {
		return
	}
	e := &c.events[w.at]
	e.at, e.order = w.pass.End, w.endOrder()
	c.events.restoreAt(w.at)
}

// endWait ends now the wait of w. endWait moves the event of the pass, unless c is driven lazily.
func (c *cluster) endWait(w *worker) {
	w.pass.EndWait(c.now)
	if c.hasEvent(w) {
		c.events[w.at].at = w.pass.End
		c.events.restoreAt(w.at)
	}
}

// hasEvent reports whether the pass of w has an event. hasEvent is false if c is driven lazily.
func (c *cluster) hasEvent(w *worker) bool {
	return w.at < len(c.events) && c.events[w.at].worker == w
}

// passOrder returns the order of the end of the pass that w starts now.
func (c *cluster) passOrder(w *worker) order {
	if c.instant.irregular {
		return c.nextOrder()
	}
	return order{made: c.now, rank: rankPass + w.rank()}
}

// nextOrder returns the order of an event that is created now, except the end of a pass in a regular instant.
func (c *cluster) nextOrder() order {
	c.instant.made++
	if c.instant.irregular {
		return order{made: c.now, rank: rankCounted + c.instant.made}
	}
	return order{made: c.now, rank: c.instant.made}
}
