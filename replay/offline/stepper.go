package offline

import (
	"context"
	"errors"
	"time"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Stepper replays a trace in steps. Between steps, a planner can read the cluster and resize its pools
// (docs/rules/harness.md, Stepping).
type Stepper struct {
	cluster *cluster
	started time.Time
	closed  bool
}

// NewStepper prepares a replay in trace mode. A KV router with a single worker is supported.
func NewStepper(cfg Config) (*Stepper, error) {
	started := time.Now()
	if cfg.Admission.Mode != loadgen.Trace {
		return nil, errors.New("a replay in steps requires trace mode")
	}
	cfg.steps = true
	r, err := prepareRun(&cfg)
	if err != nil {
		return nil, err
	}
	c, err := newCluster(r)
	if err != nil {
		return nil, err
	}
	return &Stepper{cluster: c, started: started}, nil
}

// State is the state of a cluster between two steps. Without a prefill pool, the only pool is Decode.
type State struct {
	Now             sim.Time // instant of the latest effect
	Done            bool     // every request has finished
	Prefill, Decode PoolState
}

// PoolState is the state of a pool between two steps.
type PoolState struct {
	Active int // workers that get requests
	Total  int // including starting and leaving workers
	// Passes are the passes begun since the last step, in order.
	Passes []scheduler.Snapshot
}

var errClosed = errors.New("the replay has been closed by its report")

// AdvanceTo applies everything that is due at or before until. The clock stays at the latest effect.
func (s *Stepper) AdvanceTo(ctx context.Context, until sim.Time) (State, error) {
	if s.closed {
		return State{}, errClosed
	}
	if err := s.cluster.advanceTo(ctx, until); err != nil {
		return State{}, err
	}
	return s.takeState(), nil
}

func (s *Stepper) takeState() State {
	c := s.cluster
	st := State{Now: c.now, Done: c.isIdle()}
	last := len(c.pools) - 1
	st.Decode = c.pools[last].takeState()
	if last > 0 {
		st.Prefill = c.pools[0].takeState()
	}
	return st
}

func (p *pool) takeState() PoolState {
	var st PoolState
	st.Active, st.Total = p.countWorkers()
	st.Passes, p.snapshots = p.snapshots, nil
	return st
}

// Traffic returns the traffic since the last call, or since the start.
func (s *Stepper) Traffic() Traffic { return s.cluster.window.Close(s.cluster.now) }

// Scale resizes the pools. prefill is ignored without a prefill pool.
func (s *Stepper) Scale(prefill, decode int) error {
	switch {
	case s.closed:
		return errClosed
	case len(s.cluster.pools) == 1:
		return s.cluster.fleet.scalePools([]int{decode})
	}
	return s.cluster.fleet.scalePools([]int{prefill, decode})
}

// Finish returns the result so far and closes the replay. The result includes the tokens of passes in progress,
// though these tokens appear later.
func (s *Stepper) Finish() (*harness.Result, error) {
	if s.closed {
		return nil, errClosed
	}
	s.closed = true
	if s.cluster.partial = !s.cluster.isIdle(); s.cluster.partial {
		s.cluster.ended = s.cluster.now
	}
	s.cluster.recordBegun(s.cluster.now)
	return s.cluster.makeResult(s.started), nil
}

// Traffic is the traffic of a cluster in a time window (docs/rules/harness.md, Stepping).
type Traffic = harness.Traffic
