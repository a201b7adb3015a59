package route

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"time"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/telemetry"
	"github.com/replay-llm/replay/scheduler"
)

// Observer receives the events of one request. If prefill and decode workers serve the request, it receives the
// events of both.
type Observer interface {
	// Placed is called after the choice of a worker.
	Placed(stage scheduler.Role, worker uint64)
	// Taken is called with the time at which the worker accepted the request.
	Taken(stage scheduler.Role, worker uint64, at time.Time)
	// Read is called with each chunk and its read time, before the caller gets the chunk.
	Read(stage scheduler.Role, c *engine.Chunk, at time.Time)
}

// observerKey is the context key of the Observer.
type observerKey struct{}

// Observe returns a context that reports the events of its request to o.
func Observe(ctx context.Context, o Observer) context.Context {
	return context.WithValue(ctx, observerKey{}, o)
}

// Generate sends the request to one of the workers. Errors, returned and yielded, are *engine.Error. An error of the
// worker's engine has a Backend type. If no worker could be reached or the stream broke, the error has another type.
func (p *Pool) Generate(ctx context.Context, rc cancel.Context, rq *engine.Request, headers map[string]string) (iter.Seq2[*engine.Chunk, error], error) {
	for tries := 1; ; tries++ {
		c, err := p.chooseWorker(ctx, rc, rq)
		if err != nil {
			return nil, fault.From(err)
		}
		chunks, err := c.Generate(ctx, rc, rq, headers)
		if tries < maxTries && errors.Is(err, drt.ErrNoInstances) && p.namedWorker(rq.Routing) == nil {
			continue // the worker left between the choice and the call, and nothing was sent
		}
		return chunks, err
	}
}

// maxTries is the maximum number of workers that are chosen for one request because the chosen worker left before the
// call.
const maxTries = 3

// chosen is a worker that was chosen for one request. chosen implements engine.Target.
type chosen struct {
	pool   *Pool
	choice drt.Choice
	rq     *engine.Request
	used   atomic.Bool // a call has used the choice
}

// chooseWorker chooses a worker. The caller must then call Generate or dropChoice.
func (p *Pool) chooseWorker(ctx context.Context, rc cancel.Context, rq *engine.Request) (*chosen, error) {
	choice, err := p.routeFor(rq)(ctx, rc, p.client)
	if err != nil {
		return nil, err
	}
	if o, ok := ctx.Value(observerKey{}).(Observer); ok {
		o.Placed(p.options.Role, choice.Instance)
	}
	return &chosen{pool: p, choice: choice, rq: rq}, nil
}

// pick returns the worker that was chosen. If the call to this worker fails, pick chooses again.
func (c *chosen) pick(ctx context.Context, rc cancel.Context, client *drt.Client) (drt.Choice, error) {
	if !c.used.Swap(true) {
		return c.choice, nil
	}
	return c.pool.routeFor(c.rq)(ctx, rc, client)
}

// dropChoice releases the choice, if no call has used it.
func (c *chosen) dropChoice() {
	if !c.used.Swap(true) && c.choice.Done != nil {
		c.choice.Done()
	}
}

// Generate calls the chosen worker.
func (c *chosen) Generate(ctx context.Context, rc cancel.Context, rq *engine.Request, headers map[string]string) (iter.Seq2[*engine.Chunk, error], error) {
	p := c.pool
	defer c.dropChoice()
	ctx, span := p.options.Tracing.StartRoute(ctx, rc.ID(), c.choice.Instance, string(p.options.Policy))
	r := engine.NewRemote(p.client, c.pick)
	if o, ok := ctx.Value(observerKey{}).(Observer); ok {
		r.Taken = func(worker uint64, at time.Time) { o.Taken(p.options.Role, worker, at) }
		r.Read = func(chunk *engine.Chunk, at time.Time) { o.Read(p.options.Role, chunk, at) }
	}
	chunks, err := r.Generate(ctx, rc, rq, headers)
	return telemetry.Follow(span, chunks, err)
}

// routeFor returns the route for rq: to the worker that rq names, or to the worker that the policy chooses.
func (p *Pool) routeFor(rq *engine.Request) drt.Route {
	if id := p.namedWorker(rq.Routing); id != nil {
		return drt.Direct(*id)
	}
	return func(ctx context.Context, rc cancel.Context, c *drt.Client) (drt.Choice, error) {
		available, err := c.Candidates()
		if err != nil {
			return drt.Choice{}, err
		}
		session, _ := ctx.Value(sessionKey{}).(string)
		choice, err := p.pickerFor(rq.TokenIDs).pickWorker(ctx, rc, ask{rq.TokenIDs, session}, available)
		if rq.Routing != nil && rq.Routing.DPRank != nil {
			choice.Rank = nil // the request names a rank
		}
		return choice, err
	}
}

// sessionKey is the context key of the session of a request.
type sessionKey struct{}

// WithSession returns a context with the name of the session. Routing policies may use the session.
func WithSession(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, sessionKey{}, name)
}

// namedWorker returns the worker that a request names for this pool.
func (p *Pool) namedWorker(r *engine.Routing) *uint64 {
	switch {
	case r == nil:
		return nil
	case p.options.Role == scheduler.Prefill:
		return r.PrefillWorkerID
	case p.options.Role == scheduler.Decode:
		return r.DecodeWorkerID
	}
	return r.BackendInstanceID
}

// Pair consists of prefill workers and decode workers. Each request is sent to a prefill worker and then to a decode
// worker. If the prefill worker supports rendezvous, both get the request at the same time.
type Pair struct {
	Prefill, Decode *Pool
}

// Generate sends the request to a prefill worker and a decode worker. Generate returns the chunks of the decode
// worker.
func (p *Pair) Generate(ctx context.Context, rc cancel.Context, rq *engine.Request, headers map[string]string) (iter.Seq2[*engine.Chunk, error], error) {
	first, err := p.Prefill.chooseWorker(ctx, rc, rq)
	if err != nil {
		return nil, fault.From(err)
	}
	defer first.dropChoice()
	card, _ := p.Prefill.Card(first.choice.Instance)
	r := &engine.PrefillRouter{Prefill: first, Decode: p.Decode, Host: card.RuntimeConfig.BootstrapHost, Port: card.RuntimeConfig.BootstrapPort}
	return r.Generate(ctx, rc, rq, headers)
}
