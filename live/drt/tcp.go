package drt

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/replay-llm/replay/internal/exact"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/listen"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/tcp"
)

// pooled is the maximum number of idle connections to one worker.
const pooled = 16

// tcpPlane sends requests directly to workers. A request consists of the path of the endpoint, headers and the frame.
// The worker answers with an empty text, or with the text of an error. Requests to workers on NATS are sent over
// NATS.
type tcpPlane struct {
	config *Config
	nats   *natsPlane // used for workers without a TCP address

	mu      sync.Mutex
	closed  bool
	idle    map[string][]net.Conn // connections of callers, by address
	serving map[string]*serving   // served instances by path
	server  *tcp.Server           // nil unless an endpoint is served
}

func newTCPPlane(config *Config, nats *natsPlane) *tcpPlane {
	return &tcpPlane{
		config: config, nats: nats, idle: make(map[string][]net.Conn), serving: make(map[string]*serving),
	}
}

// startListening starts to accept requests at the first call.
func (p *tcpPlane) startListening() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server != nil || p.closed {
		return nil
	}
	l, err := p.config.Links.Listen("requests", p.config.listenAddress(0), 0)
	if err != nil {
		return err
	}
	p.server = l
	l.Serve(p.serveConn)
	return nil
}

// tcpPath returns the path of an instance in requests.
func tcpPath(n Name, id uint64) string { return hexID(id) + "/" + n.Endpoint }

// servedAddress returns the address for callers.
func (p *tcpPlane) servedAddress() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server == nil {
		return ""
	}
	return listen.Dialable(p.server.Addr())
}

// serveInstance serves requests for an instance over the configured plane, each in a separate goroutine. The returned
// function stops serving the instance.
func (p *tcpPlane) serveInstance(s serving) (func(), error) {
	if p.config.Plane != TCP {
		return p.nats.serveInstance(s)
	}
	if err := p.startListening(); err != nil {
		return nil, err
	}
	path := tcpPath(s.name, s.id)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.serving[path] != nil {
		return nil, fmt.Errorf("%s: is served already, by an endpoint of that name", path)
	}
	p.serving[path] = &s
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.serving, path)
	}, nil
}

// serveConn answers the requests of a connection in order.
func (p *tcpPlane) serveConn(conn net.Conn) {
	from := bufio.NewReader(conn)
	for {
		path, m, err := readTCPRequest(from, p.config.MaxMessage)
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				p.config.Log.Warn("connection for requests closed", "from", conn.RemoteAddr().String(), "reason", err)
			}
			return
		}
		_ = conn.SetWriteDeadline(time.Now().Add(p.config.SlowClient))
		if _, err := conn.Write(tcpAnswer(p.handToServing(path, m))); err != nil {
			return
		}
	}
}

// handToServing passes a request to the serving of path and waits for its answer.
func (p *tcpPlane) handToServing(path string, m message) *refusal {
	p.mu.Lock()
	s := p.serving[path]
	p.mu.Unlock()
	if s == nil {
		return &refusal{"503", "no worker serves " + path}
	}
	answer := make(chan *refusal, 1)
	m.at, m.reply = time.Now(), func(r *refusal) { answer <- r }
	go s.take(m)
	return <-answer
}

// appendTCPRequest appends an encoded request to dst.
func appendTCPRequest(dst []byte, path string, m message) ([]byte, error) {
	headers, err := json.Marshal(m.headers)
	if err != nil {
		return nil, err
	}
	if len(path) > 1<<16-1 || len(headers) > 1<<16-1 {
		return nil, fault.New(fault.InvalidArgument, "a path of %d bytes and headers of %d: must be at most %d each", len(path), len(headers), 1<<16-1)
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(path)))
	dst = append(dst, path...)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(headers)))
	dst = append(dst, headers...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(m.frame)))
	return append(dst, m.frame...), nil
}

func readTCPRequest(from *bufio.Reader, limit int) (path string, m message, err error) {
	var size [4]byte
	short := func() ([]byte, error) {
		if _, err := io.ReadFull(from, size[:2]); err != nil {
			return nil, err
		}
		return exact.ReadN(from, int(binary.BigEndian.Uint16(size[:2])))
	}
	text, err := short()
	if err != nil {
		return "", m, err
	}
	headers, err := short()
	if err != nil {
		return "", m, err
	}
	if len(headers) > 0 {
		if err := json.Unmarshal(headers, &m.headers); err != nil {
			return "", m, fmt.Errorf("headers: %w", err)
		}
	}
	if _, err := io.ReadFull(from, size[:]); err != nil {
		return "", m, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if int64(n) > int64(limit) {
		return "", m, fmt.Errorf("a request of %d bytes: must be at most %d", n, limit)
	}
	m.frame, err = exact.ReadN(from, int(n))
	return string(text), m, err
}

// tcpAnswer encodes the answer of a worker: an empty text accepts the request.
func tcpAnswer(r *refusal) []byte {
	if r == nil {
		return make([]byte, 4)
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(len(r.text)))
	return append(b, r.text...)
}

// longestAnswer is the maximum length of an error text, in bytes.
const longestAnswer = 64 << 10

// sendRequest sends a request and returns when the worker has acknowledged it. Errors have the type CannotConnect,
// InvalidArgument or ConnectionTimeout.
func (p *tcpPlane) sendRequest(ctx context.Context, to Instance, m message) error {
	if to.Transport.Address == "" {
		return p.nats.sendRequest(ctx, to, m)
	}
	address, path, _ := strings.Cut(to.Transport.Address, "/")
	b, err := appendTCPRequest(nil, path, m)
	if err != nil {
		return err
	}
	conn, kept, err := p.openConn(ctx, address)
	if err == nil {
		err = p.exchangeRequest(ctx, conn, address, b)
		var answered *fault.Error
		if kept && err != nil && !errors.As(err, &answered) && ctx.Err() == nil {
			// An idle connection may have been closed unnoticed.
			if conn, err = p.config.Links.Dial(ctx, address); err == nil {
				err = p.exchangeRequest(ctx, conn, address, b)
			}
		}
	}
	var answered *fault.Error
	switch {
	case err == nil || errors.As(err, &answered):
		return err
	case errors.Is(ctx.Err(), context.Canceled):
		return fault.New(fault.Cancelled, "%v: cancelled before instance %s took it", to.Name, hexID(to.ID))
	case ctx.Err() != nil:
		return fault.New(fault.ConnectionTimeout, "%v: instance %s has not acknowledged: %w", to.Name, hexID(to.ID), context.Cause(ctx))
	}
	return fault.New(fault.CannotConnect, "%v: %s: %w", to.Name, address, err)
}

// openConn returns an idle connection (kept) or a new connection.
func (p *tcpPlane) openConn(ctx context.Context, address string) (conn net.Conn, kept bool, err error) {
	p.mu.Lock()
	if idle := p.idle[address]; len(idle) > 0 {
		conn = idle[len(idle)-1]
		p.idle[address] = idle[:len(idle)-1]
	}
	p.mu.Unlock()
	if conn != nil {
		return conn, true, nil
	}
	conn, err = p.config.Links.Dial(ctx, address)
	return conn, false, err
}

// exchangeRequest sends a request and reads its answer. After success exchangeRequest keeps the connection for later
// requests.
func (p *tcpPlane) exchangeRequest(ctx context.Context, conn net.Conn, address string, request []byte) error {
	cut := context.AfterFunc(ctx, func() { conn.Close() })
	defer cut()
	var size [4]byte
	_, err := conn.Write(request)
	if err == nil {
		_, err = io.ReadFull(conn, size[:])
	}
	if err != nil {
		conn.Close()
		return err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > longestAnswer {
		conn.Close()
		return fmt.Errorf("an answer of %d bytes: must be at most %d", n, longestAnswer)
	}
	text, err := exact.ReadN(conn, int(n))
	if err != nil || !cut() {
		conn.Close()
		return err
	}
	p.keepConn(conn, address)
	if n > 0 {
		return fault.New(fault.CannotConnect, "%s: %s", address, text)
	}
	return nil
}

func (p *tcpPlane) keepConn(conn net.Conn, address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle[address]) >= pooled {
		conn.Close()
		return
	}
	p.idle[address] = append(p.idle[address], conn)
}

// frameLimit returns the size limit of frames to an instance, in bytes; 0: no limit except MaxMessage.
func (p *tcpPlane) frameLimit(to Instance) int {
	if to.Transport.Address == "" {
		return int(p.nats.conn.MaxPayload())
	}
	return 0
}

func (p *tcpPlane) closePlane() {
	p.mu.Lock()
	p.closed = true
	server := p.server
	for _, idle := range p.idle {
		for _, conn := range idle {
			conn.Close()
		}
	}
	clear(p.idle)
	p.mu.Unlock()
	if server != nil {
		server.Close()
	}
	p.nats.closePlane()
}
