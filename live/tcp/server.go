// Package tcp is a server that accepts connections until it is closed.
package tcp

import (
	"net"
	"sync"
	"time"
)

// pause is the time before another attempt to accept a connection, for example after a lack of file descriptors.
const pause = 10 * time.Millisecond

// Server serves each connection in a separate goroutine.
type Server struct {
	// Set Admit before Serve. Admit accepts or rejects a connection before it is served, in the goroutine of the
	// connection. Admit returns the connection to serve, or the reason of the rejection.
	Admit func(net.Conn) (net.Conn, error)

	listener net.Listener
	most     int
	running  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{}
}

// NewServer returns a server for a listener. The server closes a new connection if most connections are open; 0: no
// limit.
func NewServer(l net.Listener, most int) *Server {
	return &Server{listener: l, most: most, conns: make(map[net.Conn]struct{})}
}

// Serve starts to accept connections, and returns. Each connection is closed when handle returns.
func (s *Server) Serve(handle func(net.Conn)) {
	s.running.Go(func() { s.acceptConns(handle) })
}

// Addr returns the address of the listener.
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

// serveConn serves a connection after Admit accepts it.
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

// replaceConn replaces a connection by the connection that Admit returned. replaceConn reports false if the server is
// closed.
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

// holdConn registers a connection. holdConn reports false if the server is closed or full.
func (s *Server) holdConn(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.most > 0 && len(s.conns) >= s.most {
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

// Release removes a connection from the server, which then does not close it. The caller must close the connection.
func (s *Server) Release(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// endConn closes a served connection, unless it was released.
func (s *Server) endConn(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, held := s.conns[c]; held {
		delete(s.conns, c)
		_ = c.Close()
	}
}

// Close closes the listener and all connections, and waits until no connection is served.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		if over, ok := c.(interface{ NetConn() net.Conn }); ok {
			c = over.NetConn() // closing the TLS connection would send a close message to peers that do not read
		}
		_ = c.Close()
	}
	s.mu.Unlock()
	_ = s.listener.Close()
	s.running.Wait()
}
