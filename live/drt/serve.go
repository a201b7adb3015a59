package drt

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/wire"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/telemetry"
)

// ServeOptions are the optional settings of a served endpoint.
type ServeOptions struct {
	Metrics *telemetry.Endpoint // metrics of its requests; nil: none
	Device  string              // device of the worker, written to discovery; "": not written
	Alive   func() bool         // reports whether requests make progress. If not, no heartbeats are sent and new requests are rejected. nil: always true
	Bare    bool                // items are sent as their data only, without an envelope, as some callers require
}

// Serving is an endpoint that this runtime serves. Serving is discoverable between Register and Unregister, and
// accepts requests from Serve to Refuse.
type Serving struct {
	endpoint *Endpoint
	handler  Handler
	metrics  *telemetry.Endpoint
	device   string
	bare     bool
	alive    func() bool

	mu         sync.Mutex
	id         uint64 // id of the instance
	unsubs     []func()
	registered bool
	refusing   bool
	active     map[*respondent]struct{}
	idle       chan struct{} // closed while no request is active
}

// Serve starts to accept requests for the endpoint. The endpoint is discoverable only after Register.
func (e *Endpoint) Serve(handler Handler, o ServeOptions) (*Serving, error) {
	s := &Serving{
		endpoint: e, handler: handler, metrics: o.Metrics, device: o.Device, bare: o.Bare, alive: o.Alive,
		active: make(map[*respondent]struct{}), idle: make(chan struct{}),
	}
	close(s.idle)
	if s.alive == nil {
		s.alive = func() bool { return true }
	}
	if s.metrics == nil {
		s.metrics = telemetry.NewMetrics().Endpoint(telemetry.Name{})
	}
	if err := s.subscribeSubjects(); err != nil {
		return nil, err
	}
	return s, e.rt.addServing(s)
}

// subscribeSubjects starts to accept requests under the runtime's id.
func (s *Serving) subscribeSubjects() error {
	rt := s.endpoint.rt
	id := rt.ID()
	stop, err := rt.plane.serveInstance(rt.newServing(s.endpoint.name, id, s.takeRequest))
	if err != nil {
		return fmt.Errorf("%v: %w", s.endpoint.name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id = id
	s.unsubs = append(s.unsubs, stop)
	return nil
}

// Register makes the endpoint discoverable. Without discovery Register does nothing.
func (s *Serving) Register(ctx context.Context) error {
	s.mu.Lock()
	s.registered = true
	s.mu.Unlock()
	return s.endpoint.rt.registerKeys(ctx, s.discoveryPairs())
}

// Unregister removes the endpoint from discovery. Requests are still accepted.
func (s *Serving) Unregister(ctx context.Context) error {
	s.mu.Lock()
	s.registered = false
	s.mu.Unlock()
	return s.endpoint.rt.unregisterKeys(ctx, s.discoveryPairs())
}

// discoveryPairs returns the keys and values of the instance in discovery.
func (s *Serving) discoveryPairs() []pair {
	s.mu.Lock()
	id := s.id
	s.mu.Unlock()
	rt := s.endpoint.rt
	var all []pair
	for _, l := range rt.config.Layout.layoutsToWrite() {
		i := Instance{s.endpoint.name, id, rt.transportOf(l, s.endpoint.name, id), s.device}
		all = append(all, pair{l.keyOf(i.Name, id), l.encodeInstance(i)})
	}
	return all
}

// Refuse makes the endpoint refuse new requests. Requests in flight continue. Without discovery, new requests go to
// other workers of the same subject instead.
func (s *Serving) Refuse() {
	var unsubs []func()
	s.mu.Lock()
	if s.endpoint.rt.config.Discovery == Static {
		unsubs, s.unsubs = s.unsubs, nil
	}
	s.mu.Unlock()
	for _, stop := range unsubs {
		stop() // requests that the server has already delivered are still received
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusing = true
}

// Wait waits until no request is in flight or ctx ends.
func (s *Serving) Wait(ctx context.Context) error {
	for {
		s.mu.Lock()
		idle := s.idle
		n := len(s.active)
		s.mu.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return fmt.Errorf("%v: %d requests are still being answered: %w", s.endpoint.name, n, context.Cause(ctx))
		}
	}
}

// Close unregisters the endpoint, rejects new requests, and waits for requests in flight. When ctx ends, Close kills
// the remaining requests.
func (s *Serving) Close(ctx context.Context) error {
	err := s.Unregister(ctx)
	s.Refuse()
	if waited := s.Wait(ctx); waited != nil {
		err = waited
		s.killAll()
	}
	s.mu.Lock()
	unsubs := s.unsubs
	s.unsubs = nil
	s.mu.Unlock()
	for _, stop := range unsubs {
		stop()
	}
	s.endpoint.rt.removeServing(s)
	return err
}

func (s *Serving) killAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.active {
		r.rc.Kill()
	}
}

// takeRequest answers one request. takeRequest runs in a separate goroutine.
func (s *Serving) takeRequest(m message) {
	rq, home, kind, err := s.decodeRequest(m)
	var transit time.Duration
	if err == nil && rq.SentNS != 0 {
		transit = max(0, m.at.Sub(time.Unix(0, int64(rq.SentNS))))
	}
	s.metrics.Received(len(m.frame), transit)
	if err != nil {
		s.metrics.Failed(kind)
		s.endpoint.rt.log.Warn("request refused", "endpoint", s.endpoint.name.String(), "reason", err)
		m.reply(&refusal{"400", err.Error()})
		return
	}
	r := &respondent{serving: s, rq: rq, home: home, rc: cancel.New(home.Context)}
	if !s.alive() || !s.beginRequest(r) {
		m.reply(&refusal{"503", fmt.Sprintf("%v: instance %s takes no requests any more", s.endpoint.name, hexID(s.id))})
		return
	}
	defer s.endRequest(r)
	m.reply(nil)
	r.answerRequest(m.at)
}

// decodeRequest decodes a request. kind is the label of its error in metrics.
func (s *Serving) decodeRequest(m message) (rq *Request, home wire.CallHome, kind string, err error) {
	const undecodable, invalid = "deserialization", "invalid_message"
	f, err := wire.Decode(m.frame, s.endpoint.rt.config.MaxMessage)
	if err != nil {
		return nil, home, undecodable, err
	}
	if f.Kind() == wire.Request && !json.Valid(f.Header) {
		return nil, home, undecodable, fmt.Errorf("header of %d bytes: not JSON", len(f.Header))
	}
	header, home, err := wire.ParseRequest(f)
	if err != nil {
		return nil, home, invalid, err
	}
	if err := s.endpoint.rt.config.Links.CheckDial(home.Address); err != nil {
		return nil, home, invalid, fmt.Errorf("response stream: %w", err)
	}
	if !json.Valid(f.Body) {
		return nil, home, undecodable, fmt.Errorf("payload of %d bytes: not JSON", len(f.Body))
	}
	rq = &Request{Payload: f.Body, Headers: m.headers, Size: len(m.frame)}
	if header.SentNS != nil {
		rq.SentNS = *header.SentNS
	}
	return rq, home, "", nil
}

func (s *Serving) beginRequest(r *respondent) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusing {
		return false
	}
	if len(s.active) == 0 {
		s.idle = make(chan struct{})
	}
	s.active[r] = struct{}{}
	return true
}

func (s *Serving) endRequest(r *respondent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.active, r)
	if len(s.active) == 0 {
		close(s.idle)
	}
}

// respondent answers one request.
type respondent struct {
	serving *Serving
	rq      *Request
	home    wire.CallHome
	rc      cancel.Context
	signal  sync.Once      // counts a cancellation once
	ended   atomic.Bool    // the last item is being sent: later signals of the caller are ignored
	broken  sync.Once      // counts a failed write once
	pulling sync.WaitGroup // the goroutine that reads the handler's sequence
}
