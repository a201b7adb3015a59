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

// Observer receives the events of one request, at each of the workers if prefill and decode workers serve it together.
type Observer interface {
	// Placed is called when a worker has been chosen.
	Placed(stage scheduler.Role, worker uint64)
	// Taken is called with the instant at which the worker took the request.
	Taken(stage scheduler.Role, worker uint64, at time.Time)
	// Read is called with each chunk, and when it was read, before it is passed on.
	Read(stage scheduler.Role, c *engine.Chunk, at time.Time)
}

// observerKey is under which a context knows its Observer.
type observerKey struct{}

// Observe lets o read the request that ctx is for.
func Observe(ctx context.Context, o Observer) context.Context {
	return context.WithValue(ctx, observerKey{}, o)
}

// Generate sends the request to one of the workers. Errors, returned and yielded,
// are *engine.Error: of a Backend type if the worker's engine said so, of another
// if no worker could be reached or its stream broke.
func (p *Pool) Generate(ctx context.Context, rc cancel.Context, rq *engine.Request, headers map[string]string) (iter.Seq2[*engine.Chunk, error], error) {
	for tries := 1; ; tries++ {
		c, err := p.chooseWorker(ctx, rc, rq)
		if err != nil {
			return nil, fault.From(err)
		}
		chunks, err := c.Generate(ctx, rc, rq, headers)
		if tries < maxTries && errors.Is(err, drt.ErrNoInstances) && p.namedWorker(rq.Routing) == nil {
			continue // it left between the choice and the call; nothing was sent
		}
		return chunks, err
	}
}

// maxTries bounds how many workers that leave at the wrong moment are chosen for
// one request.
const maxTries = 3

// chosen is a worker that was chosen for one request: an engine.Target for it.
type chosen struct {
	pool   *Pool
	choice drt.Choice
	rq     *engine.Request
	used   atomic.Bool // the choice belongs to a call
}

// chooseWorker chooses a worker. Its caller then calls Generate, or drop.
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

// pick returns the choice that was made, and another one if that did not do.
func (c *chosen) pick(ctx context.Context, rc cancel.Context, client *drt.Client) (drt.Choice, error) {
	if !c.used.Swap(true) {
		return c.choice, nil
	}
	return c.pool.routeFor(c.rq)(ctx, rc, client)
}

// dropChoice gives the choice back, if no call has it.
func (c *chosen) dropChoice() {
	if !c.used.Swap(true) && c.choice.Done != nil {
		c.choice.Done()
	}
}

// Generate calls the worker.
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

// routeFor returns how a worker is chosen for rq: the one it names, or as the pool does.
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
			choice.Rank = nil // the request names one
		}
		return choice, err
	}
}

// sessionKey is under which a context knows the session of its request.
type sessionKey struct{}

// WithSession returns a context for a request of the session of that name, which
// policies may read.
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

// Pair is prefill workers and decode workers: each request goes to one of the
// first, then to one of the second. With a prefill worker that can be met
// (package rendezvous), both get it at once.
type Pair struct {
	Prefill, Decode *Pool
}

// Generate sends the request to both kinds of workers. The chunks are those of the
// decode worker.
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
