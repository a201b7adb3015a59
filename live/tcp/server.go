// Package tcp is a server that accepts connections until it is closed.
package tcp

import (
	"net"
	"sync"
	"time"
)

// pause is the time before another attempt to accept a connection, for example after a lack of file
// descriptors: other connections will close.
const pause = 10 * time.Millisecond

// Server serves each connection in a separate goroutine.
type Server struct {
	// Admit, if not nil, accepts or rejects connections before they are served, each in its own goroutine: it returns
	// the connection to serve, or the reason of the rejection. It is set before Serve.
	Admit func(net.Conn) (net.Conn, error)

	listener net.Listener
	most     int
	running  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{}
}

// NewServer returns a server of a listener. Connections are turned away while most of
// them are open; 0: no limit.
func NewServer(l net.Listener, most int) *Server {
	return &Server{listener: l, most: most, conns: make(map[net.Conn]struct{})}
}

// Serve begins to call handle for each connection, which is closed when handle
// returns.
func (s *Server) Serve(handle func(net.Conn)) {
	s.running.Go(func() { s.acceptConns(handle) })
}

// Addr returns the address that the server listens at.
func (s *Server) Addr() *net.TCPAddr { return s.listener.Addr().(*net.TCPAddr) }

func (s *Server) acceptConns(handle func(net.Conn)) {
	for {
		c, err := s.listener.Accept()
		switch {
		case err == nil && s.holdConn(c):
			s.running.Go(func() { s.serveConn(c, handle) })
		case err == nil:
			_ = c.Close()
		case s.isClosed():
			return
		default:
			time.Sleep(pause)
		}
	}
}

// serveConn serves a connection that is admitted.
func (s *Server) serveConn(c net.Conn, handle func(net.Conn)) {
	if s.Admit == nil {
		defer s.endConn(c)
		handle(c)
		return
	}
	admitted, err := s.Admit(c)
	if err != nil || !s.replaceConn(c, admitted) {
		s.endConn(c)
		return
	}
	defer s.endConn(admitted)
	handle(admitted)
}

// replaceConn remembers a connection as what it is served as. It reports false if the
// server is closed.
func (s *Server) replaceConn(raw, admitted net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	delete(s.conns, raw)
	s.conns[admitted] = struct{}{}
	return true
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// holdConn remembers a connection, and reports whether there is room for it.
func (s *Server) holdConn(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.most > 0 && len(s.conns) >= s.most {
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

// Release makes a connection the caller's: it outlives handle and the server.
func (s *Server) Release(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// endConn closes a connection that was served, unless it was released.
func (s *Server) endConn(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, held := s.conns[c]; held {
		delete(s.conns, c)
		_ = c.Close()
	}
}

// Close closes the listener and all connections at once, and waits until nothing
// is served any more.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		if over, ok := c.(interface{ NetConn() net.Conn }); ok {
			c = over.NetConn() // TLS would send a close message to peers that do not read
		}
		_ = c.Close()
	}
	s.mu.Unlock()
	_ = s.listener.Close()
	s.running.Wait()
}
