package drt_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/drt/stack"
)

// A runtime with CallsOnly takes no lease and serves nothing.
func TestCallsOnly(t *testing.T) {
	s, config := servers(t, stack.Options{})
	config.CallsOnly = true
	rt := join(t, config)
	leases, err := etcd(t, s).Leases(limited(t))
	if err != nil || len(leases.Leases) > 0 || rt.ID() != 0 {
		t.Errorf("%v leases, id %x, %v, want none", leases.Leases, rt.ID(), err)
	}
	e := endpoint(t, rt, "generate")
	if _, err := e.Serve(counter, drt.ServeOptions{}); err == nil {
		t.Error("it serves")
	}
	if err := e.PutCard(limited(t), []byte(`{}`)); err == nil {
		t.Error("it has a card")
	}
}

// watchCount returns a function that returns the lowest number of instances that a client has seen.
func watchCount(t *testing.T, c *drt.Client) (least func() int) {
	t.Helper()
	var mu sync.Mutex
	n := len(c.Instances())
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	go func() {
		for {
			changed := c.Changed()
			mu.Lock()
			n = min(n, len(c.Instances()))
			mu.Unlock()
			select {
			case <-changed:
			case <-done:
				return
			}
		}
	}()
	return func() int { mu.Lock(); defer mu.Unlock(); return n }
}

// After a restart of etcd, with or without its data, all workers register again under the same ids. Meanwhile callers
// continue, report that their data is stale, and see all workers. A worker that closes later is removed.
func TestEtcdForgets(t *testing.T) {
	t.Parallel()
	for _, forgets := range []bool{false, true} {
		t.Run(fmt.Sprint("forgets ", forgets), func(t *testing.T) { etcdComesBack(t, forgets) })
	}
}

func etcdComesBack(t *testing.T, forgets bool) {
	t.Parallel()
	dir := t.TempDir()
	s, config := servers(t, stack.Options{Dir: dir})
	config.Lease, config.LeaseLoss = 2*time.Second, drt.Reregister
	var workers []*drt.Runtime
	for range 3 {
		rt := join(t, config)
		if err := endpoint(t, rt, "generate").PutCard(limited(t), []byte(`{"display_name":"m"}`)); err != nil {
			t.Fatal(err)
		}
		if err := rt.Announce(limited(t), fmt.Sprintf("v1/other/%x", rt.ID()), []byte(`{"told":1}`)); err != nil {
			t.Fatal(err)
		}
		serve(t, rt, "generate", counter, drt.ServeOptions{})
		workers = append(workers, rt)
	}
	call1 := config
	call1.CallsOnly = true
	caller := join(t, call1)
	c := client(t, caller, "generate", 3)
	cards, err := caller.Cards(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	least := watchCount(t, c)
	if !caller.StaleSince().IsZero() {
		t.Errorf("stale since %v before anything happened", caller.StaleSince())
	}
	began := time.Now()
	s.KillEtcd()
	poll.Until(t, "it is known to be stale", func() bool { return !caller.StaleSince().IsZero() })
	for time.Since(began) < config.Lease*3/2 {
		if got, err := call(t, c, `{"n":1}`, drt.RoundRobin()); err != nil || got != `0 "done"` {
			t.Fatalf("a call while etcd is away: %q, %v", got, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if since := caller.StaleSince(); since.After(began.Add(time.Second)) {
		t.Errorf("stale since %v, %v after etcd was killed", since, since.Sub(began))
	}
	if forgets {
		if err := os.RemoveAll(filepath.Join(dir, "etcd")); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.RestartEtcd(limited(t)); err != nil {
		t.Fatal(err)
	}
	keys := etcd(t, s)
	for _, rt := range workers {
		for _, key := range []string{"v1/instances/test/backend/generate/%x", "v1/mdc/test/backend/generate/%x", "v1/other/%x"} {
			poll.Until(t, fmt.Sprintf(key, rt.ID()), func() bool {
				r, err := keys.Get(limited(t), fmt.Sprintf(key, rt.ID()))
				return err == nil && len(r.Kvs) == 1 && r.Kvs[0].Lease == int64(rt.ID())
			})
		}
		if rt.Err() != nil {
			t.Error(rt.Err())
		}
	}
	poll.Until(t, "it is up to date", func() bool { return caller.StaleSince().IsZero() })
	if n := least(); n != 3 {
		t.Errorf("%d instances at the least, want 3 all the time", n)
	}
	if all, _ := cards.List(); len(all) != 3 {
		t.Errorf("%d cards, want 3", len(all))
	}
	// Later changes are seen.
	if err := workers[0].Close(limited(t)); err != nil {
		t.Fatal(err)
	}
	await(t, c, 2)
	serve(t, join(t, config), "generate", counter, drt.ServeOptions{})
	await(t, c, 3)
}

// If etcd has lost its data, a caller drops an instance that does not register again within the lease time.
func TestEtcdForgetsForGood(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, config := servers(t, stack.Options{Dir: dir})
	config.Lease, config.LeaseLoss = 2*time.Second, drt.Exit
	rt := join(t, config)
	serve(t, rt, "generate", counter, drt.ServeOptions{})
	config.CallsOnly = true
	caller := join(t, config)
	c := client(t, caller, "generate", 1)
	s.KillEtcd()
	awaitDone(t, rt.Done())
	if err := rt.Err(); !errors.Is(err, drt.ErrLeaseLost) {
		t.Errorf("%v, want a lost lease", err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "etcd")); err != nil {
		t.Fatal(err)
	}
	if err := s.RestartEtcd(limited(t)); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "it is up to date", func() bool { return caller.StaleSince().IsZero() })
	await(t, c, 0)
}

// After any changes, kills and restarts of etcd, with or without its data, a caller sees exactly the instances that
// have keys.
func TestInstancesEqualKeys(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	s, config := servers(t, stack.Options{Dir: dir})
	config.Lease, config.CallsOnly = 2*time.Second, true
	c := client(t, join(t, config), "generate", 0)
	there := map[uint64]bool{}
	change := func(n int) {
		keys := etcd(t, s)
		for range n {
			id := rnd.Uint64N(6) + 1
			key := fmt.Sprintf("v1/instances/test/backend/generate/%x", id)
			var err error
			if there[id] = rnd.IntN(3) > 0; there[id] {
				_, err = keys.Put(limited(t), key, fmt.Sprintf(`{"type":"Endpoint","namespace":"test","component":"backend","endpoint":"generate","instance_id":%d,"transport":{"nats_tcp":"x-%x"}}`, id, id))
			} else {
				_, err = keys.Delete(limited(t), key)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	var story []string
	for range 4 {
		n := rnd.IntN(12)
		change(n)
		story = append(story, fmt.Sprint(n, " changes"))
		if rnd.IntN(2) == 0 {
			time.Sleep(time.Duration(rnd.IntN(300)) * time.Millisecond)
		}
		s.KillEtcd()
		if rnd.IntN(2) == 0 {
			clear(there)
			story = append(story, "data lost")
			if err := os.RemoveAll(filepath.Join(dir, "etcd")); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.RestartEtcd(limited(t)); err != nil {
			t.Fatal(err)
		}
		n = rnd.IntN(12)
		change(n)
		story = append(story, fmt.Sprint("back, ", n, " changes"))
		poll.Until(t, fmt.Sprintf("what is there, %v, after %q", there, story), func() bool {
			want := 0
			for _, is := range there {
				if is {
					want++
				}
			}
			all := c.Instances()
			return len(all) == want && !slices.ContainsFunc(all, func(i drt.Instance) bool { return !there[i.ID] })
		})
	}
}

// A runtime that leaves while etcd is down ends in limited time. If etcd returns earlier, with or without its data,
// it removes the runtime's keys, and no key is registered again.
func TestLeaveWhileEtcdIsAway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, config := servers(t, stack.Options{Dir: dir})
	config.Lease, config.LeaseLoss = 2*time.Second, drt.Reregister
	rt, gone := join(t, config), join(t, config)
	for _, r := range []*drt.Runtime{rt, gone} {
		e := endpoint(t, r, "generate")
		serving, err := e.Serve(counter, drt.ServeOptions{})
		if err == nil {
			err = errors.Join(serving.Register(limited(t)), e.PutCard(limited(t), []byte(`{}`)), r.Announce(limited(t), fmt.Sprintf("v1/other/%x", r.ID()), []byte(`{}`)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s.KillEtcd()
	from := time.Now()
	if err := gone.Close(limited(t)); err == nil || time.Since(from) > 3*time.Second {
		t.Errorf("closed after %v: %v, want at most 3 s and an error that names the lease", time.Since(from), err)
	}
	left := rt.Leave()
	poll.Until(t, "the lease is over", func() bool { return time.Since(from) > 3*time.Second })
	select {
	case <-left:
		t.Error("it has left, with etcd away")
	default:
	}
	if err := s.RestartEtcd(limited(t)); err != nil {
		t.Fatal(err)
	}
	<-left
	if err := rt.Announce(limited(t), "v1/other/late", []byte(`{}`)); err == nil {
		t.Error("it registers after it has left")
	}
	all, err := etcd(t, s).Get(limited(t), "", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range all.Kvs {
		if kv.Lease == int64(rt.ID()) {
			t.Errorf("%s is there again", kv.Key)
		}
	}
}
