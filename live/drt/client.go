package drt

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/replay-llm/replay/internal/wire"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/telemetry"
)

// ClientOptions are the optional settings of a client.
type ClientOptions struct {
	Metrics *telemetry.Client // metrics of calls; nil: none
	// Migrations is how many times a request may continue at another instance after its instance failed. Default 0.
	// Requests must have the format of engines (docs/runtime.md).
	Migrations int
	// Unbegun is how many times a request without items may move to another instance after its instance sent no sign
	// of life. Default 0. A move of a request without items does not count as a migration.
	Unbegun int
}

// Client calls the instances of an endpoint.
type Client struct {
	rt      *Runtime
	name    Name
	in      *instances
	metrics *telemetry.Client
	options ClientOptions
	turn    atomic.Uint64

	mu        sync.Mutex
	inhibited map[uint64]bool
	since     time.Time // time of the first entry of inhibited
	seen      <-chan struct{}
}

// Client returns a client of the endpoint. All clients of an endpoint share one view of its instances, which lives as
// long as the runtime.
func (e *Endpoint) Client(ctx context.Context, o ClientOptions) (*Client, error) {
	in, err := e.rt.instancesOf(ctx, e.name)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", e.name, err)
	}
	if err := e.rt.homes.startListening(); err != nil {
		return nil, err
	}
	c := &Client{
		rt: e.rt, name: e.name, in: in, metrics: o.Metrics, options: o,
		inhibited: make(map[uint64]bool),
	}
	if c.metrics == nil {
		c.metrics = telemetry.NewMetrics().Client(telemetry.Name{})
	}
	return c, nil
}

// Instances returns the instances in discovery, sorted by id.
func (c *Client) Instances() []Instance {
	all, _ := c.in.listInstances()
	return slices.Clone(all)
}

// Changed returns a channel that is closed when Instances changes.
func (c *Client) Changed() <-chan struct{} {
	_, changed := c.in.listInstances()
	return changed
}

// WaitForInstances waits until the endpoint has an instance or ctx ends.
func (c *Client) WaitForInstances(ctx context.Context) ([]Instance, error) {
	for {
		all, changed := c.in.listInstances()
		if len(all) > 0 {
			return slices.Clone(all), nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fault.New(fault.CannotConnect, "%v: %w: %w", c.name, ErrNoInstances, context.Cause(ctx))
		}
	}
}

// Available returns the sorted ids of the instances in discovery, without instances that failed recently.
func (c *Client) Available() []uint64 {
	all, changed := c.in.listInstances()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.inhibited) > 0 && (c.seen != changed || time.Since(c.since) >= c.rt.config.Inhibit) {
		clear(c.inhibited)
	}
	ids := make([]uint64, 0, len(all))
	for _, one := range all {
		if !c.inhibited[one.ID] {
			ids = append(ids, one.ID)
		}
	}
	return ids
}

// inhibitInstance makes an instance unavailable for a time, if err means that the instance is in trouble.
func (c *Client) inhibitInstance(id uint64, err error) {
	if id == 0 || err == nil || !isInstanceTrouble(err) {
		return
	}
	_, changed := c.in.listInstances()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.inhibited) == 0 {
		c.since = time.Now()
	}
	c.inhibited[id], c.seen = true, changed
}

// Candidates returns the ids of the available instances, or an error if no instance is available.
func (c *Client) Candidates() ([]uint64, error) {
	ids := c.Available()
	if len(ids) == 0 {
		return nil, fault.New(fault.CannotConnect, "%v: %w", c.name, ErrNoInstances)
	}
	return ids, nil
}

// Choice is the instance that serves a request.
type Choice struct {
	Instance uint64
	// Rank, if not nil, is the data-parallel rank that serves the request: routing.dp_rank of the payload.
	Rank *int32
	// First is called once, at the first item of the response. Done is called once, when the call has ended. Either
	// may be nil.
	First, Done func()
}

// Route chooses one of a client's instances for a request.
type Route func(ctx context.Context, rc cancel.Context, c *Client) (Choice, error)

// RoundRobin returns a route that chooses the candidates in turn, in the order of their ids.
func RoundRobin() Route {
	return func(_ context.Context, _ cancel.Context, c *Client) (Choice, error) {
		ids, err := c.Candidates()
		if err != nil {
			return Choice{}, err
		}
		return Choice{Instance: ids[(c.turn.Add(1)-1)%uint64(len(ids))]}, nil
	}
}

// Direct returns a route that always chooses the instance id.
func Direct(id uint64) Route {
	return func(_ context.Context, _ cancel.Context, c *Client) (Choice, error) {
		if !slices.Contains(c.Available(), id) {
			return Choice{}, fault.New(fault.CannotConnect, "%v: instance %s is not there: %w", c.name, hexID(id), ErrNoInstances)
		}
		return Choice{Instance: id}, nil
	}
}

// callInstance sends rq to one instance, and waits until the instance accepts it.
func (c *Client) callInstance(ctx context.Context, rc cancel.Context, rq *Request, route Route) (*Stream, error) {
	began := time.Now()
	choice, err := route(ctx, rc, c)
	if err != nil {
		return nil, err
	}
	if choice.Rank != nil {
		if rq, err = rankedRequest(rq, *choice.Rank); err != nil {
			return nil, fault.New(fault.InvalidArgument, "request: %w", err)
		}
	}
	own := cancel.New(rc.ID())
	rc.LinkChild(own)
	c.metrics.Started()
	end := func(err error) {
		rc.Unlink(own)
		c.inhibitInstance(choice.Instance, err)
		if choice.Done != nil {
			choice.Done()
		}
		c.metrics.Finished()
	}
	s, err := c.connectWorker(ctx, own, rq, choice.Instance, began)
	if err != nil {
		end(err)
		return nil, err
	}
	s.onEnd = append(s.onEnd, end)
	s.onFirst = choice.First
	if err := s.openAnswer(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// connectWorker sends the request and waits until the worker calls home.
func (c *Client) connectWorker(ctx context.Context, own cancel.Context, rq *Request, id uint64, began time.Time) (*Stream, error) {
	all, _ := c.in.listInstances()
	to, ok := findByID(all, id)
	if !ok {
		return nil, fault.New(fault.CannotConnect, "%v: instance %s is not there: %w", c.name, hexID(id), ErrNoInstances)
	}
	homes, p := c.rt.homes, place{c.name, id}
	e, err := homes.expectWorker(p)
	if err != nil {
		return nil, err
	}
	sent := time.Now()
	home := wire.CallHome{Address: homes.address, Subject: e.subject, Context: own.ID()}
	if err := c.whileWanted(ctx, own, e, func(ctx context.Context) error { return c.sendRequest(ctx, to, rq, home, sent) }); err != nil {
		homes.withdrawCall(e)
		return nil, err
	}
	c.metrics.Queued(sent.Sub(began))
	c.metrics.Sent(time.Since(sent))
	a, err := homes.awaitWorker(ctx, own, e)
	if err != nil {
		return nil, err
	}
	return &Stream{
		Instance: id, place: p, rc: own, conn: a.conn, from: a.from,
		wait: vigil{conn: a.conn, items: c.rt.config.Inactivity}, beat: c.rt.config.Heartbeat, sent: sent, metrics: c.metrics,
	}, nil
}

// whileWanted runs send until the request is cancelled or its instance leaves discovery.
func (c *Client) whileWanted(ctx context.Context, own cancel.Context, e *expected, send func(context.Context) error) error {
	defer e.fail(nil)
	ctx, release := cancel.WithStop(ctx, own)
	defer release()
	defer context.AfterFunc(e.alive, release)()
	err := send(ctx)
	switch gone := context.Cause(e.alive); {
	case err == nil || ctx.Err() == nil:
		return err
	case gone != nil:
		return gone
	}
	return fault.New(fault.Cancelled, "%v: cancelled before instance %s took it", c.name, hexID(e.place.id))
}

// sendRequest encodes the request as a frame and sends it over the request plane.
func (c *Client) sendRequest(ctx context.Context, to Instance, rq *Request, home wire.CallHome, sent time.Time) error {
	f, err := wire.NewRequest(home, uint64(sent.UnixNano()), rq.Payload)
	if err != nil {
		return err
	}
	most := c.rt.config.MaxMessage
	if l := c.rt.plane.frameLimit(to); l > 0 {
		most = min(most, l)
	}
	if f.Size() > most {
		return fault.New(fault.InvalidArgument, "%v: a request of %d bytes: must be at most %d", c.name, f.Size(), most)
	}
	headers := maps.Clone(rq.Headers)
	if headers == nil {
		headers = make(map[string]string)
	}
	if headers["request-id"] == "" {
		headers["request-id"] = home.Context
	}
	headers[beatHeader] = fmt.Sprint(c.rt.config.Heartbeat.Milliseconds())
	headers[sharedHeader] = c.rt.homes.shared
	headers["x-frontend-send-ts-ns"] = fmt.Sprint(sent.UnixNano())
	ctx, release := context.WithTimeoutCause(ctx, c.rt.config.Acknowledge, fmt.Errorf("none in %v", c.rt.config.Acknowledge))
	defer release()
	return c.rt.plane.sendRequest(ctx, to, message{headers: headers, frame: f.Append(nil)})
}

// Generate sends rq to the instance that route chooses, and returns the response when the instance has accepted it. A
// stop or kill of rc stops or kills the request and its further calls. The end of ctx kills the request. Errors are
// *fault.Error: CannotConnect, Disconnected or ConnectionTimeout for a missing or broken instance. Errors of the
// worker keep their type.
func (c *Client) Generate(ctx context.Context, rc cancel.Context, rq *Request, route Route) (*Stream, error) {
	if c.options.Migrations+c.options.Unbegun == 0 {
		return c.callInstance(ctx, rc, rq, route)
	}
	j := &journey{client: c, ctx: ctx, rc: rc, rq: rq, route: route, left: c.options.Migrations, unbegun: c.options.Unbegun}
	return j.sendFirst()
}
