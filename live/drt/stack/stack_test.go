package stack_test

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/replay-llm/replay/live/drt/stack"
)

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, release := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(release)
	return ctx
}

// Servers that are killed and restarted have the same ports and data.
func TestRestart(t *testing.T) {
	ctx := limited(t)
	began := time.Now()
	s, err := stack.Start(ctx, stack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Logf("ready after %v", time.Since(began))
	etcd, nats := s.EtcdURL(), s.NATSURL()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Put(ctx, "k", "v"); err != nil {
		t.Fatal(err)
	}
	changes := c.Watch(ctx, "k")
	began = time.Now()
	s.KillEtcd()
	t.Logf("killed after %v", time.Since(began))
	s.KillNATS()
	holder, err := net.Listen("tcp", strings.TrimPrefix(etcd, "http://")) // a client that tries to connect may occupy the port like this
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(100*time.Millisecond, func() { holder.Close() })
	began = time.Now()
	if err := s.RestartEtcd(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.RestartNATS(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("restarted after %v", time.Since(began))
	if s.EtcdURL() != etcd || s.NATSURL() != nats {
		t.Errorf("at %s and %s, want %s and %s", s.EtcdURL(), s.NATSURL(), etcd, nats)
	}
	got, err := c.Get(ctx, "k")
	if err != nil || len(got.Kvs) != 1 {
		t.Fatalf("%v, %v: want the value that was there", got, err)
	}
	if _, err := c.Put(ctx, "k", "w"); err != nil {
		t.Fatal(err)
	}
	for {
		r, ok := <-changes
		if !ok || r.Err() != nil {
			t.Fatalf("watch: %v, want it to go on", r.Err())
		}
		if string(r.Events[len(r.Events)-1].Kv.Value) == "w" {
			break
		}
	}
}

// A configured directory is kept, a temporary directory is removed.
func TestDirectory(t *testing.T) {
	ctx := limited(t)
	dir := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	for _, o := range []stack.Options{{Dir: dir}, {}} {
		s, err := stack.Start(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	if kept, err := os.ReadDir(dir); err != nil || len(kept) != 2 {
		t.Errorf("%v, %v: want etcd and nats", kept, err)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) != 0 {
		t.Errorf("%v, %v: want nothing", left, err)
	}
}
