package offline

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/replay-llm/replay/internal/clone"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/replay/caches"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Fork is a paused replay that can be copied, so that the copies continue differently.
type Fork struct {
	cluster *cluster
	copier  *clone.Copier
	started time.Time
}

// NewFork prepares a replay that always runs as a cluster. The Observer is copied with the replay and may hold
// neither functions nor channels. The Observer receives the same calls, in the same order, as in a whole run with the
// same changes.
func NewFork(cfg Config) (*Fork, error) {
	started := time.Now()
	if cfg.Scalers != ([2]autoscale.Scaler{}) {
		return nil, errors.New("a fork of a replay with a custom scaler is not supported: use a built-in autoscaler")
	}
	if policy.Is[*policy.Given](cfg.Router) {
		return nil, errors.New("a fork of a replay with a custom router policy is not supported: use a built-in policy")
	}
	for i, load := range cfg.Foreseen {
		if a := cfg.AutoscalerOf(i); a != nil && a.Kind == autoscale.Foreknown && load == nil {
			return nil, errors.New("a fork of a replay with a perfect autoscaler, of which the load is unknown, is not supported: use another one")
		}
	}
	cfg.Progress = nil
	r, err := prepareRun(&cfg)
	if err != nil {
		return nil, err
	}
	for _, s := range r.Stages {
		if s.Capture == scheduler.CaptureEvents {
			r.Use.Tree.HashAll() // copies share the tree
			break
		}
	}
	c, err := newCluster(r)
	if err != nil {
		return nil, err
	}
	return &Fork{cluster: c, copier: newCopier(), started: started}, nil
}

// newCopier returns a copier that shares the values that never change in a replay.
func newCopier() *clone.Copier {
	shared := []reflect.Type{
		reflect.TypeFor[loadgen.Workload](), reflect.TypeFor[prompt.Tree](), reflect.TypeFor[prompt.List](), reflect.TypeFor[prompt.Prompt](),
		reflect.TypeFor[engines.Topology](), reflect.TypeFor[engines.Pool](), reflect.TypeFor[engines.Stage](), reflect.TypeFor[engines.Faults](), reflect.TypeFor[caches.File](), reflect.TypeFor[caches.Prompts](), reflect.TypeFor[timing.Model](),
		reflect.TypeFor[func(*sim.Request, []uint64) []uint64](), // the tokens of a prompt
	}
	return clone.New(append(shared, policy.Constants()...)...)
}

// AdvanceTo applies everything that is due at or before an instant.
func (f *Fork) AdvanceTo(ctx context.Context, at sim.Time) error {
	if end := f.cluster.cfg.Until; end > 0 && at > end {
		at = end
	}
	c := f.cluster
	if at > c.now && c.canRest() {
		c.dropEvents()
		lazy, err := c.driveLazilyTo(ctx, at)
		c.pools[0].due = dueTable{}
		if err != nil {
			return err
		}
		if lazy {
			c.now, c.instant = at, instant{at: at}
			if _, err := c.takeArrivals(); err != nil {
				return err
			}
			if err := c.createEvents(); err != nil {
				return err
			}
		}
	}
	return c.advanceTo(ctx, at)
}

// canRest reports whether the workers can be advanced independently from now on (driveLazily). canRest is false with
// an observer, because an observer must see events in the order of a whole run with changes.
func (c *cluster) canRest() bool {
	p := c.pools[0]
	return c.Observer == nil && c.canDriveLazily() && !p.metered && !c.hasIncidents() && c.pending == 0 && p.Router.Queued() == 0 &&
		!slices.ContainsFunc(p.workers, func(w *worker) bool { return w.state != active })
}

// Now returns the instant of the latest effect.
func (f *Fork) Now() sim.Time { return f.cluster.now }

// Facts returns the facts of the requests so far. The facts belong to the replay and change while it continues.
func (f *Fork) Facts() *collector.Collector { return f.cluster.Collector }

// Observer returns the observer of this replay. A copy of the replay has a copy of the observer.
func (f *Fork) Observer() harness.Observer { return f.cluster.Observer }

// Change plans a change at a later instant. The topology must have been prepared for the change (Possible).
func (f *Fork) Change(x engines.Change) error {
	c := f.cluster
	if x.At < c.now {
		return fmt.Errorf("a change at %v ms in a replay that is at %v ms, must be later", float64(x.At), float64(c.now))
	}
	t := c.Topology
	t.Changes = engines.InsertChange(t.Changes, x)
	c.SetTopology(&t)
	c.fleet.changes = engines.InsertChange(c.fleet.changes, x)
	return nil
}

// ForceWorker sends a request that has not been placed to a worker of the first pool, regardless of the router's
// policy. The policy continues as if it had chosen that worker.
func (f *Fork) ForceWorker(id sim.RequestID, w sim.WorkerID) error {
	d, ok := f.cluster.pools[0].Router.(*router.Dispatcher)
	if !ok || !d.ForceChoice(id, w) {
		return errors.New("a worker given to a request under a router that places several requests together is not supported: use another router")
	}
	return nil
}

// Copy returns an independent copy of the replay.
func (f *Fork) Copy() (*Fork, error) {
	f.cluster.Collector.Compact()
	c, err := clone.Of(f.copier, f.cluster)
	if err != nil {
		return nil, fmt.Errorf("this replay cannot be forked: %w", err)
	}
	return &Fork{cluster: c, copier: f.copier, started: f.started}, nil
}

// End runs the replay to its end and returns the facts of the requests. End is cheaper than Finish because End
// derives no report.
func (f *Fork) End(ctx context.Context) (*collector.Collector, error) {
	if err := f.cluster.finish(ctx); err != nil {
		return nil, err
	}
	return f.cluster.Collector, nil
}

// Finish runs the replay to its end.
func (f *Fork) Finish(ctx context.Context) (*harness.Result, error) {
	c := f.cluster
	if err := c.finish(ctx); err != nil {
		return nil, err
	}
	return c.makeResult(f.started), nil
}

// finish runs to the end of the replay, with the fastest driver that supports it.
func (c *cluster) finish(ctx context.Context) error {
	for len(c.fleet.changes) > 0 {
		at, left := c.fleet.changes[0].At, len(c.fleet.changes)
		if end := c.cfg.Until; end > 0 && at > end {
			break
		}
		if err := c.advanceTo(ctx, at); err != nil {
			return err
		}
		if len(c.fleet.changes) == left {
			break // nothing is left to happen
		}
	}
	if !c.canRest() {
		return c.runEvents(ctx)
	}
	c.dropEvents()
	return c.driveLazily(ctx)
}
