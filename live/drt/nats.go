package drt

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/replay-llm/replay/live/fault"
)

// queueGroup is the queue group of all endpoints.
const queueGroup = "q"

// drainLimit is how long to wait until the server has drained a subscription.
const drainLimit = time.Second

// natsPlane carries requests over NATS.
type natsPlane struct {
	conn   *nats.Conn
	config *Config

	mu       sync.Mutex
	services map[string]*natsService // micro services by name
	back     time.Time               // when the connection was last lost or restored
	up       context.Context         // ends when the connection is lost
	down     context.CancelFunc
}

// natsService is the micro service that the endpoints of a component share.
type natsService struct {
	service micro.Service
	uses    int
}

// connectNATS connects to NATS, and retries until ctx ends.
func connectNATS(ctx context.Context, config *Config) (*natsPlane, error) {
	options, err := natsOptions(config)
	if err != nil {
		return nil, fmt.Errorf("nats: %w", err)
	}
	for {
		conn, err := nats.Connect(config.NATS.URL, options...)
		if err == nil {
			return newNATSPlane(conn, config), nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
			if !errors.Is(err, nats.ErrAuthorization) {
				continue
			}
		case <-ctx.Done():
		}
		return nil, fault.New(fault.CannotConnect, "nats at %q: %w", config.NATS.URL, err)
	}
}

func newNATSPlane(conn *nats.Conn, config *Config) *natsPlane {
	p := &natsPlane{conn: conn, config: config, services: make(map[string]*natsService)}
	p.up, p.down = context.WithCancel(context.Background())
	conn.SetReconnectHandler(func(*nats.Conn) {
		config.Log.Info("nats connected again")
		p.mu.Lock()
		defer p.mu.Unlock()
		p.down() // this handler may run before the handler of the disconnect
		p.back = time.Now()
		p.up, p.down = context.WithCancel(context.Background())
	})
	conn.SetDisconnectErrHandler(func(_ *nats.Conn, err error) {
		if err != nil { // nil: closed by this process
			config.Log.Warn("nats disconnected", "reason", err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.back = time.Now() // the connection may be restored before the other handler runs
		p.down()
	})
	return p
}

// whileUp returns a context that also ends when the present connection is lost.
func (p *natsPlane) whileUp(ctx context.Context) (context.Context, func()) {
	p.mu.Lock()
	up := p.up
	p.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	forget := context.AfterFunc(up, cancel)
	return ctx, func() { forget(); cancel() }
}

// isUnsettled reports whether NATS is disconnected or was so recently that other processes may still be reconnecting.
func (p *natsPlane) isUnsettled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.conn.IsConnected() || !p.back.IsZero() && time.Since(p.back) < p.config.Inhibit
}

func natsOptions(config *Config) ([]nats.Option, error) {
	c := &config.NATS
	options := []nats.Option{
		nats.Name("replay"), nats.MaxReconnects(-1), nats.RetryOnFailedConnect(false),
		nats.CustomReconnectDelay(func(attempts int) time.Duration { // requests wait for the reconnection
			most := min(50*time.Millisecond<<min(attempts, 4), 500*time.Millisecond)
			return most/2 + rand.N(most/2)
		}),
		// A request while NATS is disconnected fails at once, and is not sent later.
		nats.ReconnectBufSize(-1),
		nats.Timeout(min(config.Connect, 2*time.Second)), nats.PingInterval(5 * time.Second), nats.MaxPingsOutstanding(2),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { config.Log.Warn("nats", "reason", err) }),
	}
	switch {
	case c.Username != "":
		options = append(options, nats.UserInfo(c.Username, c.Password))
	case c.Token != "":
		options = append(options, nats.Token(c.Token))
	case c.Credentials != "":
		options = append(options, nats.UserCredentials(c.Credentials))
	case c.NKey != "":
		o, err := nats.NkeyOptionFromSeed(c.NKey)
		if err != nil {
			return nil, fmt.Errorf("nkey: %w", err)
		}
		options = append(options, o)
	}
	secure, err := clientTLS(c.CA, c.Cert, c.Key)
	if err != nil {
		return nil, err
	}
	if secure != nil {
		options = append(options, nats.Secure(secure))
	}
	return options, nil
}

func (p *natsPlane) closePlane() {
	// Wait up to a second until the last messages are sent. Later messages are dropped.
	if p.conn.IsConnected() {
		_ = p.conn.FlushTimeout(time.Second)
	}
	p.conn.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down()
}

func (p *natsPlane) serveInstance(s serving) (func(), error) {
	if s.shared {
		return p.serveShared(s)
	}
	service, release, err := p.openService(s.name)
	if err != nil {
		return nil, err
	}
	answer := micro.HandlerFunc(func(r micro.Request) {
		go s.take(newMessage(r.Data(), r.Headers(), func(no *refusal) { p.answerMicro(r, no) }))
	})
	for i, l := range s.layouts {
		name := s.name.Endpoint + "-" + hexID(s.id)
		if err := service.AddGroup(l.group(s.name)).AddEndpoint(name, answer, micro.WithEndpointQueueGroup(queueGroup)); err != nil {
			release()
			return nil, fmt.Errorf("subject %s: %w", s.subjects[i], err)
		}
	}
	// After this, a call is answered: the server has the subscription.
	if err := p.conn.FlushTimeout(p.config.Connect); err != nil {
		release()
		return nil, fault.New(fault.CannotConnect, "nats: %w", err)
	}
	return release, nil
}

// openService returns the micro service of a component, which the component's endpoints share.
func (p *natsPlane) openService(n Name) (micro.Service, func(), error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := serviceName(n.Namespace + "_" + n.Component)
	s := p.services[name]
	if s == nil {
		service, err := micro.AddService(p.conn, micro.Config{
			Name: name, Version: p.config.ProgramLabel, QueueGroup: queueGroup,
			Description: "instances of " + n.Namespace + "." + n.Component,
		})
		if err != nil {
			return nil, nil, fmt.Errorf("service %s: %w", name, err)
		}
		s = &natsService{service: service}
		p.services[name] = s
	}
	s.uses++
	return s.service, sync.OnceFunc(func() { p.dropService(name) }), nil
}

// dropService stops a service when none of its endpoints is served. Before the stop, endpoints that are no longer
// served refuse requests.
func (p *natsPlane) dropService(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.services[name]
	if s.uses--; s.uses == 0 {
		delete(p.services, name)
		_ = s.service.Stop() // stopping unsubscribes; an error means that the connection is closed
	}
}

// newMessage returns a request for the worker. reply ignores errors: if an answer is lost, the caller times out.
func newMessage(frame []byte, headers map[string][]string, reply func(*refusal)) message {
	m := message{frame: frame, at: time.Now(), headers: make(map[string]string), reply: reply}
	for k, v := range headers {
		if len(v) > 0 {
			m.headers[strings.ToLower(k)] = v[0]
		}
	}
	return m
}

// answerMicro answers a request of a micro service; nil acknowledges it. The answer is a separate message, because
// the service reads its own answer when the handler returns, which is too early.
func (p *natsPlane) answerMicro(r micro.Request, no *refusal) {
	_ = p.conn.PublishMsg(newAnswer(r.Reply(), no))
}

// answerPlain answers a request of a plain subscription like a micro service.
func answerPlain(r *nats.Msg, no *refusal) { _ = r.RespondMsg(newAnswer(r.Reply, no)) }

// newAnswer returns the answer to a request; nil acknowledges it.
func newAnswer(to string, no *refusal) *nats.Msg {
	answer := nats.NewMsg(to)
	if no != nil {
		answer.Header.Set(micro.ErrorCodeHeader, no.code)
		answer.Header.Set(micro.ErrorHeader, no.text)
	}
	return answer
}

// serveShared serves subjects that other workers serve, too. The stop function drains the subscriptions, which a
// single endpoint of a micro service cannot do.
func (p *natsPlane) serveShared(s serving) (func(), error) {
	var all []*nats.Subscription
	stop := func() {
		for _, sub := range all {
			drained := sub.StatusChanged(nats.SubscriptionClosed)
			if sub.Drain() != nil {
				continue // the connection is closed
			}
			select {
			case <-drained:
			case <-time.After(drainLimit):
			}
		}
	}
	for _, subject := range s.subjects {
		sub, err := p.conn.QueueSubscribe(subject, queueGroup, func(m *nats.Msg) {
			go s.take(newMessage(m.Data, m.Header, func(no *refusal) { answerPlain(m, no) }))
		})
		if err != nil {
			stop()
			return nil, fmt.Errorf("subject %s: %w", subject, err)
		}
		all = append(all, sub)
	}
	return sync.OnceFunc(stop), p.conn.FlushTimeout(p.config.Connect)
}

// planeWait is how long a request that no worker has received waits for NATS, and for workers that reconnect.
const planeWait = 1500 * time.Millisecond

// requestOnce sends a request and waits for its answer until the connection is lost.
func (p *natsPlane) requestOnce(ctx context.Context, msg *nats.Msg) (*nats.Msg, error) {
	if !p.conn.IsConnected() {
		return nil, nats.ErrConnectionClosed
	}
	waiting, release := p.whileUp(ctx)
	defer release()
	return p.conn.RequestMsgWithContext(waiting, msg)
}

func (p *natsPlane) sendRequest(ctx context.Context, to Instance, m message) error {
	msg := nats.NewMsg(to.Transport.Subject)
	msg.Data = m.frame
	for k, v := range m.headers {
		msg.Header.Set(k, v)
	}
	answer, err := p.requestOnce(ctx, msg)
	for began := time.Now(); p.isUnsettled() && (errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrNoResponders)) && time.Since(began) < planeWait; {
		select {
		case <-time.After(100 * time.Millisecond):
			answer, err = p.requestOnce(ctx, msg)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	switch {
	case err == nil:
		return refusalError(refusalOf(answer))
	case errors.Is(err, nats.ErrMaxPayload):
		return fault.New(fault.InvalidArgument, "%v: a request of %d bytes: must be at most %d", to.Name, len(m.frame), p.conn.MaxPayload())
	case errors.Is(ctx.Err(), context.Canceled):
		return fault.New(fault.Cancelled, "%v: cancelled before instance %s took it", to.Name, hexID(to.ID))
	case errors.Is(err, context.DeadlineExceeded) && p.conn.IsConnected():
		return fault.New(fault.ConnectionTimeout, "%v: instance %s has not acknowledged: %w", to.Name, hexID(to.ID), context.Cause(ctx))
	case errors.Is(err, nats.ErrNoResponders) && !p.isUnsettled():
		err = fmt.Errorf("%w: %w", ErrNoInstances, err)
	}
	return p.unreachedError(to, err)
}

// unreachedError returns a CannotConnect. unreachedError includes errUnsettled if NATS is or was recently
// disconnected, so that the instance is not blamed.
func (p *natsPlane) unreachedError(to Instance, err error) error {
	if p.isUnsettled() {
		err = fmt.Errorf("%w: %w", errUnsettled, err)
	}
	return fault.New(fault.CannotConnect, "%v: %s: %w", to.Name, to.Transport.Subject, err)
}

// refusalOf returns the refusal in a micro service's answer, or nil.
func refusalOf(answer *nats.Msg) *refusal {
	code := answer.Header.Get(micro.ErrorCodeHeader)
	if code == "" {
		return nil
	}
	return &refusal{code, answer.Header.Get(micro.ErrorHeader)}
}
