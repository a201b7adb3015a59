package offline

import (
	"context"
	"math"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/sim"
)

// driveLazily is the event loop without events, for one pool in open loop: a router reads its workers at arrivals only,
// and workers do not interact between two arrivals. So each is brought to the next arrival on its own. Its runs of
// passes extend past that: a request that reaches it ends the run, and nothing else depends on the run. While the
// router holds requests back that is not so, since any first or last token may let one go: then the events take over.
func (c *cluster) driveLazily(ctx context.Context) error {
	if _, err := c.driveLazilyTo(ctx, c.endInstant()); err != nil {
		return err
	}
	return c.endReplay()
}

// driveLazilyTo lets everything happen that begins before an instant, and end by then. It reports
// false when events have taken over by then.
func (c *cluster) driveLazilyTo(ctx context.Context, end sim.Time) (lazy bool, err error) {
	p := c.pools[0]
	p.due = dueTable{make([]sim.Time, len(p.workers)), make([]sim.Time, (len(p.workers)+dueGroup-1)/dueGroup)}
	for {
		next, ok := c.Next(c.now, 0)
		if !ok || next >= end {
			next, ok = end, false
		}
		err := p.due.visit(next, func(id int) (sim.Time, error) {
			w := p.workers[id]
			err := c.bringWorker(ctx, w, next, end)
			return w.nextDue(), err
		})
		if err != nil {
			return false, err
		}
		if !ok {
			return true, nil
		}
		c.now, c.instant = next, instant{at: next}
		if _, err := c.takeArrivals(); err != nil {
			return false, err
		}
		if p.Router.Queued() > 0 {
			if err := c.driveHeld(ctx, end); err != nil || p.Router.Queued() > 0 {
				return false, err
			}
			c.dropEvents()
			clear(p.due.at)
			clear(p.due.least)
		}
	}
}

// nextDue is the instant before which w does nothing alone, when it has been
// brought as far as it goes.
func (w *worker) nextDue() sim.Time {
	switch {
	case w.busy:
		return w.pass.End
	case w.core.Load() == 0:
		return sim.Time(math.Inf(1))
	}
	return w.since
}

// bringWorker runs the passes of w that begin before limit, and ends the passes that end then. Runs of passes that begin
// before limit continue until end.
func (c *cluster) bringWorker(ctx context.Context, w *worker, limit, end sim.Time) error {
	for {
		if w.busy {
			if w.pass.End > limit {
				return nil
			}
			c.now = w.pass.End
			w.since = c.now
			if err := c.endPass(w); err != nil {
				return err
			}
		}
		if w.core.Load() == 0 || w.since >= limit {
			return nil
		}
		if err := c.checkInterrupt(ctx); err != nil {
			return err
		}
		c.now = w.since
		if err := c.stepWorker(w, end); err != nil {
			return err
		}
		w.busy, w.began = true, order{made: c.now, rank: rankPass + w.rank()}
	}
}

// driveHeld continues event by event until the router holds nothing back.
func (c *cluster) driveHeld(ctx context.Context, end sim.Time) error {
	p := c.pools[0]
	if err := c.takeUpEvents(); err != nil {
		return err
	}
	for p.Router.Queued() > 0 {
		next, ok := c.nextInstant()
		if !ok || next >= end {
			break
		}
		if err := c.checkInterrupt(ctx); err != nil {
			return err
		}
		c.now = next
		if err := c.settleInstant(); err != nil {
			return err
		}
	}
	return nil
}

// takeUpEvents makes events of the passes in progress, in the middle of an instant at which
// requests have arrived, and ends the instant.
func (c *cluster) takeUpEvents() error {
	c.events = c.events[:0]
	for _, w := range c.pools[0].workers {
		if w.busy {
			c.events.push(event{at: w.pass.End, order: w.endOrder(), kind: passEnds, worker: w})
		}
	}
	if _, err := c.startPasses(); err != nil {
		return err
	}
	return c.settleRounds(true)
}

// dropEvents ends the runs of passes in progress with the passes that have begun. From now on each worker
// is brought on its own.
func (c *cluster) dropEvents() {
	c.events = c.events[:0]
	for _, w := range c.pools[0].workers {
		if keep := w.countBegun(c.now, true); w.busy && keep < w.pass.Count {
			w.core.Cut(&w.pass, keep)
		}
	}
}

// canDriveLazily reports whether driveLazily will do.
func (c *cluster) canDriveLazily() bool {
	return len(c.pools) == 1 && c.Feed.Independent() && c.Admission.Mode == loadgen.Trace &&
		len(c.fleet.scaling) == 0 && len(c.fleet.changes) == 0 && c.saveAt == 0 && !c.cfg.steps
}
