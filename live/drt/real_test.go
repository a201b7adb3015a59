package drt_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/drt/stack"
	"github.com/replay-llm/replay/live/fault"
)

// servers starts real servers that end with the test, and returns a configuration for them.
func servers(t *testing.T, o stack.Options) (*stack.Stack, drt.Config) {
	t.Helper()
	s, err := stack.Start(limited(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s, drt.Config{
		Etcd: drt.EtcdConfig{Endpoints: []string{s.EtcdURL()}}, NATS: drt.NATSConfig{URL: s.NATSURL()},
		ProgramLabel: "1.2.3", Connect: timeLimit,
	}
}

// etcd returns a plain etcd client, to read keys directly.
func etcd(t *testing.T, s *stack.Stack) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.EtcdURL()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// An instance is registered in both layouts under its lease. The subjects of the instance belong to a micro service.
func TestRegistration(t *testing.T) {
	s, config := servers(t, stack.Options{})
	rt := join(t, config)
	serving := serve(t, rt, "generate", counter, drt.ServeOptions{Device: "cpu"})
	if err := endpoint(t, rt, "generate").PutCard(limited(t), json.RawMessage(`{"name":"m"}`)); err != nil {
		t.Fatal(err)
	}
	id := rt.ID()
	want := map[string]string{
		fmt.Sprintf("/services/test/backend/generate-%x", id):    fmt.Sprintf(`{"namespace":"test","component":"backend","endpoint":"generate","lease_id":%d,"transport":{"nats_tcp":"test.backend.generate-%x"}}`, id, id),
		fmt.Sprintf("v1/instances/test/backend/generate/%x", id): fmt.Sprintf(`{"type":"Endpoint","namespace":"test","component":"backend","endpoint":"generate","instance_id":%d,"transport":{"nats_tcp":"test_backend.generate-%x"},"device_type":"cpu"}`, id, id),
		fmt.Sprintf("v1/mdc/test/backend/generate/%x", id):       fmt.Sprintf(`{"type":"Model","namespace":"test","component":"backend","endpoint":"generate","instance_id":%d,"card_json":{"name":"m"}}`, id),
	}
	c := etcd(t, s)
	all, err := c.Get(limited(t), "", clientv3.WithFromKey())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range all.Kvs {
		if uint64(kv.Lease) != id {
			t.Errorf("%s: lease %x, want %x", kv.Key, kv.Lease, id)
		}
		if string(kv.Value) != want[string(kv.Key)] {
			t.Errorf("%s:\ngot  %s\nwant %s", kv.Key, kv.Value, want[string(kv.Key)])
		}
		delete(want, string(kv.Key))
	}
	if len(want) > 0 {
		t.Errorf("not written: %v", want)
	}
	checkService(t, s, id)

	// A runtime may write its keys again, but not the keys of another lease.
	if err := serving.Register(limited(t)); err != nil {
		t.Errorf("registered again: %v", err)
	}
	if err := serving.Unregister(limited(t)); err != nil {
		t.Fatal(err)
	}
	foreign := fmt.Sprintf("v1/instances/test/backend/generate/%x", id)
	if _, err := c.Put(limited(t), foreign, "x"); err != nil {
		t.Fatal(err)
	}
	if err := serving.Register(limited(t)); err == nil || !strings.Contains(err.Error(), foreign) {
		t.Errorf("registered over a foreign key: %v, want an error that names it", err)
	}
	if left, err := c.Get(limited(t), "/services/", clientv3.WithPrefix()); err != nil || left.Count != 0 {
		t.Errorf("%v, %v: want neither key without the other", left, err)
	}
}

func checkService(t *testing.T, s *stack.Stack, id uint64) {
	t.Helper()
	conn, err := nats.Connect(s.NATSURL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answer, err := conn.RequestWithContext(limited(t), "$SRV.INFO", nil)
	if err != nil {
		t.Fatal(err)
	}
	var info micro.Info
	if err := json.Unmarshal(answer.Data, &info); err != nil {
		t.Fatal(err)
	}
	if info.Name != "test_backend" || info.Version != "1.2.3" {
		t.Errorf("service %s %s, want test_backend 1.2.3", info.Name, info.Version)
	}
	var subjects []string
	for _, e := range info.Endpoints {
		if e.QueueGroup != "q" {
			t.Errorf("%s: queue group %q, want q", e.Subject, e.QueueGroup)
		}
		subjects = append(subjects, e.Subject)
	}
	slices.Sort(subjects)
	if want := []string{fmt.Sprintf("test.backend.generate-%x", id), fmt.Sprintf("test_backend.generate-%x", id)}; !slices.Equal(subjects, want) {
		t.Errorf("subjects %q, want %q", subjects, want)
	}
}

func who(rt *drt.Runtime) drt.Handler {
	return one(func(context.Context, cancel.Context, *drt.Request) string { return fmt.Sprint(rt.ID()) })
}

// Each route calls the instance that it should select.
func TestModes(t *testing.T) {
	_, config := servers(t, stack.Options{})
	var ids []string
	for range 3 {
		rt := join(t, config)
		serve(t, rt, "generate", who(rt), drt.ServeOptions{})
		ids = append(ids, fmt.Sprint(rt.ID()))
	}
	c := client(t, join(t, config), "generate", 3)
	slices.SortFunc(ids, func(a, b string) int { return strings.Compare(fmt.Sprintf("%30s", a), fmt.Sprintf("%30s", b)) })
	for i := range 30 {
		if got, err := call(t, c, `{}`, drt.RoundRobin()); err != nil || got != ids[i%3] {
			t.Fatalf("call %d: %q, %v, want %q", i, got, err, ids[i%3])
		}
	}
	for _, one := range c.Instances() {
		if got, err := call(t, c, `{}`, drt.Direct(one.ID)); err != nil || got != fmt.Sprint(one.ID) {
			t.Errorf("direct to %d: %q, %v", one.ID, got, err)
		}
	}
	_, err := call(t, c, `{}`, drt.Direct(7))
	if !isType(err, fault.CannotConnect) || !strings.Contains(err.Error(), "instance 7") || !strings.Contains(err.Error(), "test.backend.generate") {
		t.Errorf("direct to nobody: %v, want CannotConnect with id and endpoint", err)
	}
}

// Endpoints with names of the same prefix do not see each other's instances.
func TestNamesThatBeginAlike(t *testing.T) {
	_, config := servers(t, stack.Options{})
	rt := join(t, config)
	for _, name := range []string{"generate", "generate2", "generate-2"} {
		serve(t, rt, name, one(func(context.Context, cancel.Context, *drt.Request) string { return name }), drt.ServeOptions{})
	}
	caller := join(t, config)
	for _, name := range []string{"generate", "generate2", "generate-2"} {
		c := client(t, caller, name, 1)
		if got, err := call(t, c, `{}`, drt.RoundRobin()); err != nil || got != `"`+name+`"` {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if i := c.Instances()[0]; i.Endpoint != name {
			t.Errorf("%s: sees %v", name, i)
		}
	}
}

// Callers find an instance that is registered in one layout only.
func TestLayouts(t *testing.T) {
	_, config := servers(t, stack.Options{})
	for _, l := range []drt.Layout{drt.Seed, drt.V1, drt.Both} {
		t.Run(string(l), func(t *testing.T) {
			config := config
			config.Layout = l
			rt := join(t, config)
			serve(t, rt, "generate", who(rt), drt.ServeOptions{})
			c := client(t, join(t, config), "generate", 1)
			want := fmt.Sprintf("test_backend.generate-%x", rt.ID())
			if l == drt.Seed {
				want = fmt.Sprintf("test.backend.generate-%x", rt.ID())
			}
			if got := c.Instances()[0].Transport.Subject; got != want {
				t.Errorf("subject %s, want %s", got, want)
			}
			if got, err := call(t, c, `{}`, drt.RoundRobin()); err != nil || got != fmt.Sprint(rt.ID()) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// A request that is larger than NATS accepts is refused by the caller.
func TestTooLarge(t *testing.T) {
	_, config := servers(t, stack.Options{MaxPayload: 1 << 20})
	rt := join(t, config)
	m := newCounts()
	serve(t, rt, "generate", counter, drt.ServeOptions{Metrics: m.Endpoint})
	c := client(t, join(t, config), "generate", 1)
	_, err := call(t, c, `{"pad":"`+strings.Repeat("x", 2<<20)+`"}`, drt.RoundRobin())
	if !isType(err, fault.InvalidArgument) || !strings.Contains(err.Error(), "2097") || !strings.Contains(err.Error(), "1048576") {
		t.Errorf("%v, want InvalidArgument with both sizes", err)
	}
	if got, err := call(t, c, `{"n":1}`, drt.RoundRobin()); err != nil || got != `0 "done"` {
		t.Errorf("%q, %v after it", got, err)
	}
	if n := m.received(); n != 1 {
		t.Errorf("%d requests received, want the small one alone", n)
	}
}

// With static discovery, addresses come from the configuration, and etcd is not needed.
func TestStatic(t *testing.T) {
	s, config := servers(t, stack.Options{})
	s.KillEtcd()
	config.Discovery = drt.Static
	config.Etcd.Endpoints = []string{"http://127.0.0.1:1"} // no server listens there
	t.Run("shared subject", func(t *testing.T) {
		seen := make(map[string]bool)
		var leaving *drt.Serving
		for range 2 {
			rt := join(t, config)
			leaving = serve(t, rt, "generate", who(rt), drt.ServeOptions{})
		}
		c := client(t, join(t, config), "generate", 1)
		for range 200 {
			got, err := call(t, c, `{}`, drt.RoundRobin())
			if err != nil {
				t.Fatal(err)
			}
			seen[got] = true
		}
		if len(seen) != 2 {
			t.Errorf("%d workers answered 200 calls, want 2", len(seen))
		}
		leaving.Refuse()
		for range 50 {
			if _, err := call(t, c, `{}`, drt.RoundRobin()); err != nil {
				t.Fatalf("one of two workers has left: %v", err)
			}
		}
	})
	t.Run("addresses", func(t *testing.T) {
		var err error
		if config.Static, err = drt.ParseStatic("test.backend.generate=one@a,test.backend.generate=two@b"); err != nil {
			t.Fatal(err)
		}
		for _, id := range []uint64{10, 11} {
			config := config
			config.WorkerID = id
			rt := join(t, config)
			if rt.ID() != id {
				t.Errorf("id %x, want %x", rt.ID(), id)
			}
			serve(t, rt, "generate", who(rt), drt.ServeOptions{})
		}
		c := client(t, join(t, config), "generate", 2)
		for i := range 4 {
			if got, err := call(t, c, `{}`, drt.RoundRobin()); err != nil || got != fmt.Sprint(10+i%2) {
				t.Errorf("call %d: %q, %v", i, got, err)
			}
		}
		if got, err := call(t, c, `{}`, drt.Direct(11)); err != nil || got != "11" {
			t.Errorf("direct: %q, %v", got, err)
		}
	})
	t.Run("nobody", func(t *testing.T) {
		config := config
		config.Static = nil
		c := client(t, join(t, config), "other", 1)
		if _, err := call(t, c, `{}`, drt.RoundRobin()); !isType(err, fault.CannotConnect) {
			t.Errorf("%v, want CannotConnect", err)
		}
	})
}
