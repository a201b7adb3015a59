package drt

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"

	"github.com/replay-llm/replay/internal/mux"
	"github.com/replay-llm/replay/internal/wire"
)

// sharedHeader is the header of a request with the subject of shared connections, which carry the response streams of
// several calls of a caller. Other implementations of workers ignore the header and connect for each call.
const sharedHeader = "x-replay-shared-stream"

// callerID identifies a caller by its address and the subject of its shared connections.
type callerID struct{ address, subject string }

// line is the shared connection of a worker to a caller.
type line struct {
	rt *Runtime
	to callerID

	mu   sync.Mutex
	conn *mux.Conn // nil before the first call
	over bool      // a new line replaces this line
}

// errOver is the error of a line that accepts no more streams.
var errOver = errors.New("the connection has ended")

// openStream opens a response stream to a caller.
func (rt *Runtime) openStream(ctx context.Context, to callerID) (net.Conn, error) {
	for {
		rt.mu.Lock()
		l := rt.lines[to]
		if l == nil {
			l = &line{rt: rt, to: to}
			rt.lines[to] = l
		}
		rt.mu.Unlock()
		if stream, err := l.openStream(ctx); !errors.Is(err, errOver) {
			return stream, err
		}
	}
}

// openStream opens a stream. The first stream opens the connection.
func (l *line) openStream(ctx context.Context) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return nil, errOver
	}
	if l.conn != nil {
		stream, err := l.conn.Open()
		if err != nil {
			l.forget()
			l.over, err = true, errOver
		}
		return stream, err
	}
	conn, err := l.rt.config.Links.Dial(ctx, l.to.address)
	if err == nil {
		_, err = conn.Write(wire.NewHello(l.to.subject).Append(nil))
	}
	if err != nil {
		l.forget()
		l.over = true
		return nil, err
	}
	l.conn = mux.New(conn, conn, nil, l.forget)
	return l.conn.Open()
}

// forget removes the line, so that the next call connects again.
func (l *line) forget() {
	l.rt.mu.Lock()
	defer l.rt.mu.Unlock()
	if l.rt.lines[l.to] == l {
		delete(l.rt.lines, l.to)
	}
}

// closeLines closes each shared connection when its last stream ends.
func (rt *Runtime) closeLines() {
	rt.mu.Lock()
	all := slices.Collect(maps.Values(rt.lines))
	rt.mu.Unlock()
	for _, l := range all {
		l.mu.Lock()
		if l.conn != nil {
			l.conn.CloseIdle()
		}
		l.mu.Unlock()
	}
}
