package drt_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt"
)

// wireTap is a proxy to a server. While a wireTap is cut, it forwards nothing and keeps the connections open.
type wireTap struct {
	address string
	cut     atomic.Bool
}

// tap starts a proxy to the server at a URL.
func tap(t *testing.T, server string) *wireTap {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wireTap{address: u.Scheme + "://" + l.Addr().String()}
	var mu sync.Mutex
	var open []net.Conn
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, c := range open {
			c.Close()
		}
	})
	t.Cleanup(func() { w.cut.Store(false) })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", u.Host)
			if err != nil {
				near.Close()
				continue
			}
			mu.Lock()
			open = append(open, near, far)
			mu.Unlock()
			go w.pass(near, far)
			go w.pass(far, near)
		}
	}()
	return w
}

func (w *wireTap) pass(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		poll.Wait(func() bool { return !w.cut.Load() })
		if n > 0 {
			_, _ = to.Write(buf[:n])
		}
		if err != nil {
			to.Close()
			return
		}
	}
}

// A worker that is cut off from etcd for longer than its lease ends. A worker that is cut off for half of its lease
// continues.
func TestFaultCutOff(t *testing.T) {
	s, config, _ := cluster(t, 0)
	away := config
	w := tap(t, s.EtcdURL())
	away.Etcd.Endpoints = []string{w.address}
	p := spawn(t, away, drt.Exit)
	c := client(t, join(t, config), "generate", 1)
	wait := streams(t, c, 20, 300)
	w.cut.Store(true)
	time.Sleep(ttl / 2)
	w.cut.Store(false)
	for i, err := range wait() {
		if err != nil {
			t.Errorf("call %d, cut off for half a lease: %v", i, err)
		}
	}
	if n := len(c.Instances()); n != 1 {
		t.Errorf("%d instances after that, want 1", n)
	}
	w.cut.Store(true)
	began := time.Now()
	if code := p.code(t); code == 0 {
		t.Error("it ended with 0, want another code")
	}
	within(t, "cut off from etcd: the worker has ended", began, ttl+2*time.Second)
	await(t, c, 0)
	within(t, "cut off from etcd: no instance any more", began, ttl+2*time.Second)
}

// asCaller is the environment variable with the server addresses. asCaller makes this program run a caller with 20
// streams.
const asCaller = "REPLAY_TEST_CALLER"

func callForEver(text string) error {
	var etcd, nats string
	if _, err := fmt.Sscan(text, &etcd, &nats); err != nil {
		return err
	}
	ctx := context.Background()
	rt, err := drt.Connect(ctx, drt.Config{
		Etcd: drt.EtcdConfig{Endpoints: []string{etcd}}, NATS: drt.NATSConfig{URL: nats}, ResponseHost: "127.0.0.1",
	})
	if err != nil {
		return err
	}
	e, err := rt.Endpoint("test", "backend", "generate")
	if err != nil {
		return err
	}
	c, err := e.Client(ctx, drt.ClientOptions{})
	if err != nil {
		return err
	}
	if _, err := c.WaitForInstances(ctx); err != nil {
		return err
	}
	for range 20 {
		if _, err := c.Generate(ctx, cancel.New(""), &drt.Request{Payload: []byte(`{"n":100000,"slow":true}`)}, drt.RoundRobin()); err != nil {
			return err
		}
	}
	fmt.Println("calling")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// The kill of a caller with 20 streams counts as 20 cancellations.
func TestFaultCallerKilled(t *testing.T) {
	_, config, _ := cluster(t, 0)
	m := newCounts()
	serving := serve(t, join(t, config), "generate", ticking, drt.ServeOptions{Metrics: m.Endpoint})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), asCaller+"="+config.Etcd.Endpoints[0]+" "+config.NATS.URL)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if _, err := io.ReadFull(out, make([]byte, len("calling"))); err != nil {
		t.Fatal(err)
	}
	if n := serving.Active(); n != 20 {
		t.Errorf("%d streams, want 20", n)
	}
	began := time.Now()
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := serving.Wait(limited(t)); err != nil {
		t.Fatal(err)
	}
	within(t, "caller killed: the worker is idle", began, time.Second)
	if n := m.cancelled(); n != 20 {
		t.Errorf("%d cancellations counted, want 20", n)
	}
}
