// Package drttest starts etcd and NATS for tests, and connects runtimes to them.
package drttest

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/drt/stack"
)

// patience is the timeout of a test, longer than any step needs.
const patience = 2 * time.Minute

// Within returns a context that ends only when a test hangs.
func Within(t testing.TB) context.Context {
	t.Helper()
	ctx, release := context.WithTimeout(context.Background(), patience)
	t.Cleanup(release)
	return ctx
}

// Servers are an etcd and a NATS for one test.
type Servers struct {
	*stack.Stack
	etcd *clientv3.Client
}

// Start starts servers that end with the test.
func Start(t testing.TB) *Servers { return StartIn(t, "") }

// StartIn starts servers that keep their data in dir. The data of etcd is in dir/etcd.
func StartIn(t testing.TB, dir string) *Servers {
	t.Helper()
	s, err := stack.Start(Within(t), stack.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.EtcdURL()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), s.Stop()); err != nil {
			t.Error(err)
		}
	})
	return &Servers{s, c}
}

// Config returns a configuration for a runtime that uses s.
func (s *Servers) Config() drt.Config {
	return drt.Config{
		Etcd: drt.EtcdConfig{Endpoints: []string{s.EtcdURL()}}, NATS: drt.NATSConfig{URL: s.NATSURL()}, ResponseHost: "127.0.0.1",
		Connect: patience,
	}
}

// Keys returns all keys in etcd.
func (s *Servers) Keys(t testing.TB) (all []string) {
	t.Helper()
	r, err := s.etcd.Get(Within(t), "", clientv3.WithFromKey(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range r.Kvs {
		all = append(all, string(kv.Key))
	}
	return all
}

// Revoke revokes the lease of an instance, as if it had expired.
func (s *Servers) Revoke(t testing.TB, id uint64) {
	t.Helper()
	if _, err := s.etcd.Revoke(Within(t), clientv3.LeaseID(id)); err != nil {
		t.Fatal(err)
	}
}

// Connect returns a runtime that is closed at the end of the test.
func Connect(t testing.TB, c drt.Config) *drt.Runtime {
	t.Helper()
	rt, err := drt.Connect(Within(t), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(Within(t)); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return rt
}

// Client returns a client of the endpoint namespace.component.endpoint, which must be served.
func Client(t testing.TB, rt *drt.Runtime, endpoint string) *drt.Client {
	t.Helper()
	e, err := rt.ParseEndpoint(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	c, err := e.Client(Within(t), drt.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.WaitForInstances(Within(t)); err != nil {
		t.Fatal(err)
	}
	return c
}
