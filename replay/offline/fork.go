package offline

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/replay-llm/replay/internal/clone"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Fork is a replay that stands still at an instant, from which it can go on in several ways.
type Fork struct {
	cluster *cluster
	copier  *clone.Copier
	started time.Time
}

// NewFork prepares a replay, whatever drives it otherwise. Its Observer is copied with it and
// may hold neither functions nor channels.
func NewFork(cfg Config) (*Fork, error) {
	started := time.Now()
	if cfg.Scaler != nil {
		return nil, errors.New("a fork of a replay with a scaler of the caller's, want an autoscaler of the replay's own")
	}
	if cfg.Policy != nil {
		return nil, errors.New("a fork of a replay with a router policy of the caller's, want a policy of the replay's own")
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

// newCopier returns a copier that shares what never changes in a replay.
func newCopier() *clone.Copier {
	shared := []reflect.Type{
		reflect.TypeFor[loadgen.Workload](), reflect.TypeFor[prompt.Tree](), reflect.TypeFor[prompt.List](), reflect.TypeFor[prompt.Prompt](),
		reflect.TypeFor[engines.Topology](), reflect.TypeFor[engines.Pool](), reflect.TypeFor[engines.Stage](), reflect.TypeFor[engines.Faults](), reflect.TypeFor[timing.Model](),
		reflect.TypeFor[func(*sim.Request, []uint64) []uint64](), // the tokens of a prompt
	}
	return clone.New(append(shared, policy.Constants()...)...)
}

// AdvanceTo lets everything happen that is due at or before an instant.
func (f *Fork) AdvanceTo(ctx context.Context, at sim.Time) error {
	if end := f.cluster.cfg.Until; end > 0 && at > end {
		at = end
	}
	return f.cluster.advanceTo(ctx, at)
}

// Now returns the instant of the last thing that happened.
func (f *Fork) Now() sim.Time { return f.cluster.now }

// Observer returns who looks on: in a copy the copy of the Observer of its original.
func (f *Fork) Observer() harness.Observer { return f.cluster.Observer }

// Copy returns the replay once more. The two know nothing of each other.
func (f *Fork) Copy() (*Fork, error) {
	c, err := clone.Of(f.copier, f.cluster)
	if err != nil {
		return nil, fmt.Errorf("this replay cannot be forked: %w", err)
	}
	return &Fork{cluster: c, copier: f.copier, started: f.started}, nil
}

// Finish lets the replay go on to its end.
func (f *Fork) Finish(ctx context.Context) (*harness.Result, error) {
	if err := f.cluster.runEvents(ctx); err != nil {
		return nil, err
	}
	return f.cluster.makeResult(f.started), nil
}
