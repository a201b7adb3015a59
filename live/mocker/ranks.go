package mocker

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/kvevents"
)

// Ranks are the data-parallel ranks of a worker, as in vLLM for dense models: mockers with separate schedulers, KV
// caches and publishers of KV events. Ranks implements engine.Engine.
type Ranks struct {
	all  []*Engine
	turn atomic.Uint32 // the first rank to try if several are equally busy
}

// NewRanks returns n ranks with the same options, not started. The sockets of rank i are KVSockets.Next(i).
func NewRanks(o Options, n int) (*Ranks, error) {
	r := &Ranks{}
	for i := range n {
		one := o
		one.Rank, one.KVSockets = int32(i), o.KVSockets.Next(i)
		e, err := New(one)
		if err != nil {
			return nil, err
		}
		r.all = append(r.all, e)
	}
	return r, nil
}

// Start starts all ranks. Decode workers connect to one address for all ranks.
func (r *Ranks) Start(ctx context.Context, workerID uint64) (engine.EngineConfig, error) {
	var c engine.EngineConfig
	for i, e := range r.all {
		e.rooms = r.all[0].rooms
		one, err := e.Start(ctx, workerID)
		if err != nil {
			return c, errors.Join(err, r.Cleanup(ctx))
		}
		if i == 0 {
			c = one
		}
	}
	c.DataParallelSize = len(r.all)
	if sources := r.Sources(); len(sources) > 0 {
		c.RuntimeData = map[string]any{kvevents.SourcesKey: sources}
	}
	return c, nil
}

// Generate serves a request on the rank that the request names, or on the rank with the fewest requests.
func (r *Ranks) Generate(ctx context.Context, rq *engine.Request, rc engine.GenContext) (iter.Seq2[*engine.Chunk, error], error) {
	if rq.Routing != nil && rq.Routing.DPRank != nil {
		rank := *rq.Routing.DPRank
		if uint64(rank) >= uint64(len(r.all)) {
			return nil, fault.New(fault.BackendInvalidArgument, "dp_rank is %d, must be at most %d", rank, len(r.all)-1)
		}
		return r.all[rank].Generate(ctx, rq, rc)
	}
	return r.idlest().Generate(ctx, rq, rc)
}

// idlest returns the rank with the fewest requests.
func (r *Ranks) idlest() *Engine {
	var best *Engine
	first, least := int(r.turn.Add(1)-1), 0
	for i := range r.all {
		e := r.all[(first+i)%len(r.all)]
		if n := e.ActiveRequests(); best == nil || n < least {
			best, least = e, n
		}
	}
	return best
}

// Abort removes the request from its scheduler.
func (r *Ranks) Abort(rc cancel.Context) {
	for _, e := range r.all {
		e.Abort(rc)
	}
}

// Drain waits until no request is on any scheduler.
func (r *Ranks) Drain(ctx context.Context) (err error) {
	for _, e := range r.all {
		err = errors.Join(err, e.Drain(ctx))
	}
	return err
}

// Cleanup ends all ranks. The sockets for decode workers are closed with rank 0, which is the last.
func (r *Ranks) Cleanup(ctx context.Context) (err error) {
	for _, e := range slices.Backward(r.all) {
		err = errors.Join(err, e.Cleanup(ctx))
	}
	return err
}

// ActiveRequests returns the number of requests on the schedulers.
func (r *Ranks) ActiveRequests() (n int) {
	for _, e := range r.all {
		n += e.ActiveRequests()
	}
	return n
}

// Alive reports whether passes of all ranks end in time.
func (r *Ranks) Alive() bool {
	return !slices.ContainsFunc(r.all, func(e *Engine) bool { return !e.Alive() })
}

// Sources returns the sockets of the ranks for KV events, if they have sockets.
func (r *Ranks) Sources() (all []kvevents.Source) {
	for _, e := range r.all {
		if e.tee != nil {
			all = append(all, e.Source())
		}
	}
	return all
}

// KVEventSources returns the sources of all ranks.
func (r *Ranks) KVEventSources() (all []engine.KVEventSource, err error) {
	for _, e := range r.all {
		one, _ := e.KVEventSources()
		all = append(all, one...)
	}
	return all, nil
}

// SetupMetrics publishes the load of each rank.
func (r *Ranks) SetupMetrics(c engine.MetricsContext) (engine.MetricsBindings, error) {
	b := engine.MetricsBindings{OnPublisherReady: func(rank int, publish func(engine.RankSnapshot)) {
		one, _ := r.all[rank].SetupMetrics(c)
		one.OnPublisherReady(rank, publish)
	}}
	for i := range r.all {
		b.DPRanks = append(b.DPRanks, i)
	}
	return b, nil
}
