package tcp

import (
	"io"
	"net"
	"testing"

	"go.uber.org/goleak"
)

func dial(t *testing.T, s *Server) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// closed waits until the peer has closed a connection.
func closed(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is open, want it closed")
	}
}

// Connections above the limit are closed. A released connection outlives the server. Close leaves no goroutine
// running.
func TestServer(t *testing.T) {
	defer goleak.VerifyNone(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(l, 1)
	served := make(chan net.Conn)
	release := make(chan bool)
	s.Serve(func(c net.Conn) {
		served <- c
		if <-release {
			s.Release(c)
			return
		}
		_, _ = io.Copy(io.Discard, c)
	})
	first := dial(t, s)
	kept := <-served
	closed(t, dial(t, s))
	release <- true
	second := dial(t, s)
	<-served
	release <- false
	s.Close()
	closed(t, second)
	if _, err := kept.Write([]byte("x")); err != nil {
		t.Errorf("released: %v", err)
	}
	if _, err := io.ReadFull(first, make([]byte, 1)); err != nil {
		t.Errorf("released: %v", err)
	}
	kept.Close()
	s.Close()
}
