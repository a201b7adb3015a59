package drt_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/fault"
)

// A worker that closes disappears at once. A worker that is killed disappears when its lease expires.
func TestFaultWorkerGone(t *testing.T) {
	_, config, all := cluster(t, 1)
	c := client(t, join(t, config), "generate", 1)
	rt, err := drt.Connect(limited(t), config)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, rt, "generate", counter, drt.ServeOptions{})
	await(t, c, 2)
	began := time.Now()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		await(t, c, 1)
		within(t, "runtime closed: seen by a watcher", began, 100*time.Millisecond)
	}()
	if err := rt.Close(limited(t)); err != nil {
		t.Fatal(err)
	}
	<-gone
	all[0].signal(t, syscall.SIGKILL)
	began = time.Now()
	await(t, c, 0)
	within(t, "SIGKILL: seen by a watcher", began, ttl+time.Second)
}

// If its lease is revoked, a worker process ends or registers again.
func TestFaultLeaseRevoked(t *testing.T) {
	s, config, all := cluster(t, 1)
	keys := etcd(t, s)
	began := time.Now()
	if _, err := keys.Revoke(limited(t), clientv3.LeaseID(all[0].id)); err != nil {
		t.Fatal(err)
	}
	if code := all[0].code(t); code == 0 {
		t.Errorf("exit code %d, want another", code)
	}
	within(t, "lease revoked: the worker has ended", began, time.Second)

	again := spawn(t, config, drt.Reregister)
	c := client(t, join(t, config), "generate", 1)
	began = time.Now()
	revoked, err := keys.Revoke(limited(t), clientv3.LeaseID(again.id))
	if err != nil {
		t.Fatal(err)
	}
	awaitWritten(t, s, fmt.Sprintf("v1/instances/test/backend/generate/%x", again.id), revoked.Header.Revision)
	await(t, c, 1)
	within(t, "lease revoked: registered again", began, time.Second)
	if got, err := call(t, c, `{"n":1}`, drt.RoundRobin()); err != nil || !strings.Contains(got, "length") {
		t.Errorf("a call to it: %q, %v", got, err)
	}
}

// streams starts n long calls. wait returns the error of each call.
func streams(t *testing.T, c *drt.Client, n, items int) (wait func() []error) {
	t.Helper()
	failed := make([]error, n)
	var all, open sync.WaitGroup
	open.Add(n)
	for i := range n {
		all.Go(func() {
			s, err := c.Generate(limited(t), cancel.New(""), &drt.Request{Payload: fmt.Appendf(nil, `{"n":%d,"slow":true}`, items)}, drt.RoundRobin())
			open.Done()
			if err != nil {
				failed[i] = err
				return
			}
			got, err := collect(s)
			if failed[i] = err; err == nil && strings.Count(got, "token_ids") != items+1 {
				failed[i] = fmt.Errorf("%d items, want %d", strings.Count(got, "token_ids"), items+1)
			}
		})
	}
	open.Wait()
	return func() []error { all.Wait(); return failed }
}

// An outage of etcd for less than the lease has no effect. After a longer outage, workers have ended, and clients
// notice when etcd returns.
func TestFaultEtcdAway(t *testing.T) {
	s, config, all := cluster(t, 2)
	c := client(t, join(t, config), "generate", 2)
	wait := streams(t, c, 100, 300)
	began := time.Now()
	s.KillEtcd()
	for i := range 100 {
		if got, err := call(t, c, `{"n":2}`, drt.RoundRobin()); err != nil {
			t.Errorf("new call %d while etcd is away: %q, %v", i, got, err)
		}
	}
	time.Sleep(time.Until(began.Add(ttl / 2)))
	if err := s.RestartEtcd(limited(t)); err != nil {
		t.Fatal(err)
	}
	for i, err := range wait() {
		if err != nil {
			t.Errorf("running call %d: %v", i, err)
		}
	}
	if n := len(c.Instances()); n != 2 {
		t.Errorf("%d instances after half a lease, want both", n)
	}

	s.KillEtcd()
	began = time.Now()
	for _, p := range all {
		if code := p.code(t); code == 0 {
			t.Error("a worker ended with 0, want another code")
		}
	}
	within(t, "etcd away: workers have ended", began, 2*ttl)
	time.Sleep(time.Until(began.Add(2 * ttl)))
	if err := s.RestartEtcd(limited(t)); err != nil {
		t.Fatal(err)
	}
	// The lease of callers is lost, too, but a caller needs no lease.
	began = time.Now()
	await(t, c, 0)
	within(t, "etcd back: clients know that there is no instance", began, 2*ttl)
	if _, err := call(t, c, `{}`, drt.RoundRobin()); !errors.Is(err, drt.ErrNoInstances) {
		t.Errorf("a call then: %v, want no instances", err)
	}
	spawn(t, config, drt.Exit)
	await(t, c, 1)
	if got, err := call(t, c, `{"n":1}`, drt.RoundRobin()); err != nil {
		t.Errorf("a call to the new worker: %q, %v", got, err)
	}
}

// While NATS is down, running calls continue and new calls fail. After NATS returns, calls succeed.
func TestFaultNATSAway(t *testing.T) {
	s, config, _ := cluster(t, 1)
	c := client(t, join(t, config), "generate", 1)
	wait := streams(t, c, 20, 200)
	s.KillNATS()
	for range 3 {
		began := time.Now()
		if _, err := call(t, c, `{}`, drt.RoundRobin()); !errors.Is(err, fault.CannotConnect) {
			t.Errorf("a new call: %v, want CannotConnect", err)
		}
		within(t, "nats away: a new call fails", began, 2*time.Second)
	}
	time.Sleep(3 * time.Second)
	for i, err := range wait() {
		if err != nil {
			t.Errorf("running call %d: %v", i, err)
		}
	}
	if err := s.RestartNATS(limited(t)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	poll.Until(t, "a call that succeeds", func() bool {
		_, err := call(t, c, `{"n":1}`, drt.RoundRobin())
		return err == nil
	})
	within(t, "nats back: a new call succeeds", began, 3*time.Second)
}

// If a worker is killed during a stream, the call fails.
func TestFaultKilledMidStream(t *testing.T) {
	_, config, all := cluster(t, 2)
	rt := join(t, config)
	c := client(t, rt, "generate", 2)
	s, err := c.Generate(limited(t), cancel.New(""), &drt.Request{Payload: json.RawMessage(`{"n":5000,"slow":true}`)}, drt.Direct(all[0].id))
	if err != nil {
		t.Fatal(err)
	}
	var began time.Time
	n := 0
	for _, err = range s.Items() {
		if n++; n == 3 {
			all[0].signal(t, syscall.SIGKILL)
			began = time.Now()
		}
	}
	if !errors.Is(err, fault.Disconnected) {
		t.Errorf("ended with %v, want Disconnected", err)
	}
	within(t, "worker killed: its stream ends with Disconnected", began, time.Second)
	for range 10 {
		s, err := c.Generate(limited(t), cancel.New(""), &drt.Request{Payload: json.RawMessage(`{"n":1}`)}, drt.RoundRobin())
		if err != nil {
			t.Fatal(err)
		}
		if s.Instance != all[1].id {
			t.Errorf("a call went to instance %x, which was killed", s.Instance)
		}
		s.Close()
	}

	third := spawn(t, config, drt.Exit)
	await(t, c, 2)
	e := endpoint(t, rt, "generate")
	mover, err := e.Client(limited(t), drt.ClientOptions{Migrations: 1})
	if err != nil {
		t.Fatal(err)
	}
	const want = 200
	s, err = mover.Generate(limited(t), cancel.New(""), &drt.Request{Payload: fmt.Appendf(nil, `{"n":%d,"slow":true,"token_ids":[],"stop_conditions":{"max_tokens":%d}}`, want, want)}, drt.RoundRobin())
	if err != nil {
		t.Fatal(err)
	}
	victim := map[uint64]*process{all[1].id: all[1], third.id: third}[s.Instance]
	n = 0
	for item, err := range s.Items() {
		if err != nil {
			t.Fatal(err)
		}
		if n += strings.Count(string(item.Data), "token_ids\":[") - strings.Count(string(item.Data), "token_ids\":[]"); n == 50 && victim != nil {
			victim.signal(t, syscall.SIGKILL)
			victim = nil
		}
	}
	t.Logf("migrated: %d tokens", n)
	if n != want {
		t.Errorf("%d tokens, want %d", n, want)
	}
}

// If a worker ends between its acknowledgement and its call home, the call fails.
func TestFaultNoCallHome(t *testing.T) {
	s, config, _ := cluster(t, 0)
	asked := mute(t, s, 5, true)
	c := client(t, join(t, config), "generate", 1)
	began := time.Now()
	_, err := call(t, c, `{}`, drt.RoundRobin())
	if !errors.Is(err, fault.ConnectionTimeout) {
		t.Errorf("%v, want ConnectionTimeout", err)
	}
	within(t, "nobody calls home: the call fails", began, 10*time.Second+500*time.Millisecond)
	<-asked
	failed := make(chan error, 1)
	c = client(t, join(t, config), "generate", 1)
	go func() { _, err := call(t, c, `{}`, drt.RoundRobin()); failed <- err }()
	<-asked
	began = time.Now()
	if _, err := etcd(t, s).Delete(limited(t), "v1/instances/test/backend/generate/5"); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, fault.Disconnected) {
		t.Errorf("%v, want Disconnected", err)
	}
	within(t, "its key goes: the call fails", began, 100*time.Millisecond)
}

// A worker that is paused for longer than its lease counts as dead, and ends when it continues.
func TestFaultPaused(t *testing.T) {
	_, config, all := cluster(t, 2)
	c := client(t, join(t, config), "generate", 2)
	all[0].signal(t, syscall.SIGSTOP)
	began := time.Now()
	if _, err := call(t, c, `{}`, drt.Direct(all[0].id)); !errors.Is(err, fault.ConnectionTimeout) && !errors.Is(err, fault.Disconnected) {
		t.Errorf("a call to a paused worker: %v, want ConnectionTimeout", err)
	}
	within(t, "paused: a call fails", began, ttl+time.Second)
	await(t, c, 1)
	within(t, "paused: no instance any more", began, ttl+time.Second)
	all[0].signal(t, syscall.SIGCONT)
	began = time.Now()
	if code := all[0].code(t); code == 0 {
		t.Error("it ended with 0, want another code")
	}
	within(t, "goes on: it has ended", began, time.Second)
}
