package drt

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/replay-llm/replay/internal/listen"
	"github.com/replay-llm/replay/internal/mux"
	"github.com/replay-llm/replay/internal/wire"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/tcp"
)

// place identifies an instance of an endpoint.
type place struct {
	name Name
	id   uint64
}

// callers is the listener for workers that call home, and the calls that wait for their workers.
type callers struct {
	config *Config
	shared string // the subject of connections for several calls

	mu      sync.Mutex
	server  *tcp.Server // connections before their hello; nil before the first client
	address string      // address that workers connect to
	closed  bool
	waiting map[string]*expected // expected calls by subject
	gone    map[place]time.Time  // removed instances, with the end of their tombstone
	lines   map[*mux.Conn]struct{}
}

// expected is a call that waits for its worker to call home.
type expected struct {
	subject string
	place   place
	arrival chan arrival // receives one arrival, capacity 1
	alive   context.Context
	fail    context.CancelCauseFunc // cancels alive: the worker will not arrive
}

// arrival is a worker that has called home, or the error if it will not.
type arrival struct {
	conn net.Conn
	from *wire.Reader
	err  error
}

func newCallers(config *Config) *callers {
	return &callers{
		config: config, shared: cancel.NewID(),
		waiting: make(map[string]*expected), gone: make(map[place]time.Time), lines: make(map[*mux.Conn]struct{}),
	}
}

// startListening opens the listener at the first call.
func (c *callers) startListening() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return errors.New("the runtime is closed")
	case c.server != nil:
		return nil
	}
	l, err := c.config.Links.Listen("response streams", c.config.listenAddress(c.config.ResponsePort), 0)
	if err != nil {
		return err
	}
	c.server, c.address = l, listen.Dialable(l.Addr())
	l.Serve(func(conn net.Conn) { c.readCaller(conn, l.Release) })
	return nil
}

// readCaller reads the subject of a connection and passes the connection to the call that waits for it. Unknown
// connections are closed and do not affect other calls.
func (c *callers) readCaller(conn net.Conn, release func(net.Conn)) {
	_ = conn.SetReadDeadline(time.Now().Add(c.config.CallHome))
	from := wire.NewReader(patientConn{conn}, c.config.MaxMessage)
	f, err := from.Read()
	var hello wire.Hello
	if err == nil {
		hello, err = wire.ParseHello(f)
	}
	if err != nil {
		c.config.Log.Warn("connection for response streams closed", "from", conn.RemoteAddr().String(), "reason", err)
		return
	}
	if hello.Subject == c.shared {
		release(conn)
		_ = conn.SetReadDeadline(time.Time{})
		c.shareConn(conn, from.Rest())
		return
	}
	e := c.takeExpected(hello.Subject)
	if e == nil {
		return
	}
	release(conn)
	_ = conn.SetReadDeadline(time.Time{})
	e.arrival <- arrival{conn: conn, from: from}
}

// shareConn accepts the streams of a shared connection. Each stream is handled like a connection of a worker.
func (c *callers) shareConn(conn net.Conn, from io.Reader) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var line *mux.Conn
	line = mux.New(conn, from, func(stream net.Conn) {
		taken := false
		if c.readCaller(stream, func(net.Conn) { taken = true }); !taken {
			stream.Close()
		}
	}, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.lines, line)
	})
	c.lines[line] = struct{}{}
	if c.closed {
		line.CloseIdle()
	}
}

// takeExpected removes and returns the call that waits for subject. Each subject is used once.
func (c *callers) takeExpected(subject string) *expected {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.waiting[subject]
	delete(c.waiting, subject)
	return e
}

// expectWorker registers a call to an instance. expectWorker returns an error if discovery removed the instance
// within the last Tombstone.
func (c *callers) expectWorker(p place) (*expected, error) {
	e := &expected{subject: cancel.NewID(), place: p, arrival: make(chan arrival, 1)}
	e.alive, e.fail = context.WithCancelCause(context.Background())
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fault.New(fault.CannotConnect, "the runtime is closed")
	}
	if until, ok := c.gone[p]; ok {
		if time.Now().Before(until) {
			return nil, removedError(p)
		}
		delete(c.gone, p)
	}
	c.waiting[e.subject] = e
	return e, nil
}

func removedError(p place) error {
	return fault.New(fault.Disconnected, "%v: instance %s %w", p.name, hexID(p.id), ErrGone)
}

// withdrawCall removes a waiting call. If the worker of the call still arrives, the connection is closed.
func (c *callers) withdrawCall(e *expected) {
	if c.takeExpected(e.subject) != nil {
		return
	}
	// The worker is arriving now.
	if a := <-e.arrival; a.conn != nil {
		a.conn.Close()
	}
}

// buryInstance fails the calls that wait for an instance. New calls to the instance fail until its tombstone ends.
func (c *callers) buryInstance(p place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for other, until := range c.gone {
		if now.After(until) {
			delete(c.gone, other)
		}
	}
	c.gone[p] = now.Add(c.config.Tombstone)
	for subject, e := range c.waiting {
		if e.place == p {
			delete(c.waiting, subject)
			e.fail(removedError(p))
			e.arrival <- arrival{err: removedError(p)}
		}
	}
}

// reviveInstance removes the tombstone of an instance.
func (c *callers) reviveInstance(p place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.gone, p)
}

// awaitWorker waits for the worker of e until CallHome has passed, or until the call is cancelled.
func (c *callers) awaitWorker(ctx context.Context, rc cancel.Context, e *expected) (arrival, error) {
	limit := time.NewTimer(c.config.CallHome)
	defer limit.Stop()
	var err error
	p := e.place
	select {
	case a := <-e.arrival:
		return a, a.err
	case <-limit.C:
		var a arrival
		if a, err = c.awaitLate(ctx, rc, e); err == nil || a.err != nil {
			return a, err
		}
	case <-rc.Stopped():
		err = fault.New(fault.Cancelled, "%v: cancelled before instance %s called home", p.name, hexID(p.id))
	case <-ctx.Done():
		err = fault.New(fault.Cancelled, "%v: given up before instance %s called home: %w", p.name, hexID(p.id), context.Cause(ctx))
	}
	c.withdrawCall(e)
	return arrival{}, err
}

// closeAll fails all waiting calls and closes the listener. Running streams continue.
func (c *callers) closeAll() {
	c.mu.Lock()
	c.closed = true
	for subject, e := range c.waiting {
		delete(c.waiting, subject)
		e.arrival <- arrival{err: fault.New(fault.Disconnected, "the runtime is closed")}
	}
	for line := range c.lines {
		line.CloseIdle()
	}
	c.mu.Unlock()
	if c.server != nil {
		c.server.Close()
	}
}
