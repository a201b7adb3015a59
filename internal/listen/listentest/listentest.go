// Package listentest serves the servers of tests.
package listentest

import (
	"context"
	"net"
	"testing"
	"time"
)

// Server is a server that serves until Shutdown.
type Server interface {
	Serve(l net.Listener) error
	Shutdown(ctx context.Context) error
}

// patience is how long a server may take to shut down.
const patience = time.Minute

// Serve serves s at a free port of 127.0.0.1 until the test ends, and returns the address.
func Serve(t testing.TB, s Server) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, release := context.WithTimeout(context.Background(), patience)
		defer release()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return l.Addr().String()
}
