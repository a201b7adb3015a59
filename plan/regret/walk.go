package regret

import (
	"context"
	"math"
	"slices"
	"sync/atomic"

	"github.com/replay-llm/replay/replay/offline"
	"github.com/replay-llm/replay/sim"
)

// meter counts the tried choices.
type meter struct {
	done   atomic.Int64
	total  int
	report func(done, total int) // may be nil
}

func (m *meter) count() {
	if n := m.done.Add(1); m.report != nil {
		m.report(int(n), m.total)
	}
}

// walk moves a replay through the decisions of a part of the sample, and tries all workers at each.
func (f *finder) walk(ctx context.Context, walk *offline.Fork, from, to int) error {
	group, at := f.newAffected(), sim.Time(0)
	for i := from; i < to; i++ {
		d := &f.Decisions[i]
		if before := sim.Time(math.Nextafter(float64(d.At), 0)); before > at {
			if err := walk.AdvanceTo(ctx, before); err != nil {
				return err
			}
			at = before
		}
		group.moveTo(d, f.places[i])
		for w := range d.Outcomes {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := group.try(ctx, walk, d, sim.WorkerID(w)); err != nil {
				return err
			}
			f.tried.count()
		}
	}
	return nil
}

// try gives the request of a decision to a worker, in a copy of a replay at the time before the decision.
func (c *affected) try(ctx context.Context, walk *offline.Fork, d *Decision, w sim.WorkerID) error {
	own, err := walk.Copy()
	if err != nil {
		return err
	}
	if err := own.ForceWorker(d.Request, w); err != nil {
		return err
	}
	if err := c.awaitAffected(ctx, own); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return explainFailure(d, w, err.Error())
	}
	facts := own.Facts()
	ttft, e2e, over := c.times(facts)
	switch {
	case !over:
		return explainFailure(d, w, "not all requests have ended")
	case facts.Records()[d.Request].Worker != w:
		return explainFailure(d, w, "it went elsewhere")
	case w == d.Chosen && !(slices.Equal(ttft, c.ttft) && slices.Equal(e2e, c.e2e)):
		return explainFailure(d, w, "it is the worker that was chosen, and not all fare as in the run")
	}
	c.fill(&d.Outcomes[w], facts, d)
	return nil
}

// firstStep is the first time span of a copy if a request has not ended at the end of the run.
const firstStep sim.Time = 1000

// awaitAffected continues a copy until all members of the group, or all requests, have ended.
func (c *affected) awaitAffected(ctx context.Context, own *offline.Fork) error {
	step := firstStep
	for at := c.until; at <= 2*c.end; at += step {
		if err := own.AdvanceTo(ctx, at); err != nil {
			return err
		}
		if _, _, over := c.times(own.Facts()); over {
			return nil
		}
		if at > c.until {
			step *= 2
		}
	}
	_, err := own.End(ctx)
	return err
}
