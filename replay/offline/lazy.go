package offline

import (
	"context"
	"math"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/sim"
)

// driveLazily is the event loop without events, for one pool in open loop. A router reads its workers at arrivals
// only, and workers do not interact between two arrivals. Each worker is therefore advanced to the next arrival
// independently. Runs of passes extend past the arrival: a request that the worker gets ends the run, and nothing
// else depends on the run. While the router holds requests back, any first or last token may release a request, so
// the loop switches to events.
func (c *cluster) driveLazily(ctx context.Context) error {
	if _, err := c.driveLazilyTo(ctx, c.endInstant()); err != nil {
		return err
	}
	return c.endReplay()
}

// driveLazilyTo applies everything that begins before end and ends by then. driveLazilyTo reports false if the replay
// has switched to events.
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
			err := c.advanceWorker(ctx, w, next, end)
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

// nextDue returns the instant before which nothing happens on w unless it gets a request.
func (w *worker) nextDue() sim.Time {
	switch {
	case w.busy:
		return w.pass.End
	case w.core.Load() == 0:
		return sim.Time(math.Inf(1))
	}
	return w.since
}

// advanceWorker runs the passes of w that begin before limit, and applies the passes that end by limit. Runs of passes
// that begin before limit may last until end.
func (c *cluster) advanceWorker(ctx context.Context, w *worker, limit, end sim.Time) error {
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

// driveHeld uses events until the router holds no request.
func (c *cluster) driveHeld(ctx context.Context, end sim.Time) error {
	p := c.pools[0]
	if err := c.createEvents(); err != nil {
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

// createEvents creates events for the passes in progress and completes the current instant, at which requests have
// arrived.
func (c *cluster) createEvents() error {
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

// dropEvents removes all events and cuts runs of passes after the passes that have begun. The workers are advanced
// independently from now on.
func (c *cluster) dropEvents() {
	c.events = c.events[:0]
	for _, w := range c.pools[0].workers {
		if keep := w.countBegun(c.now, true); w.busy && keep < w.pass.Count {
			w.core.Cut(&w.pass, keep)
		}
	}
}

// canDriveLazily reports whether driveLazily supports the replay.
func (c *cluster) canDriveLazily() bool {
	return len(c.pools) == 1 && c.Feed.Independent() && c.Admission.Mode == loadgen.Trace &&
		len(c.fleet.scaling) == 0 && len(c.fleet.changes) == 0 && c.saveAt == 0 && !c.cfg.steps
}
