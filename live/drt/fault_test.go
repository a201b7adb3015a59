package drt_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/drt/stack"
	"github.com/replay-llm/replay/live/fault"
)

// open starts a call and reads the first item of a worker that then waits.
func open(t *testing.T, c *drt.Client, rc cancel.Context) (next func() (drt.Item, error, bool)) {
	t.Helper()
	s, err := c.Generate(limited(t), rc, &drt.Request{Payload: json.RawMessage(`{"n":1,"block":true}`)}, drt.RoundRobin())
	if err != nil {
		t.Fatal(err)
	}
	next, stop := pull(s)
	t.Cleanup(stop)
	if item, err, ok := next(); !ok || err != nil || string(item.Data) != "0" {
		t.Fatalf("first item %q, %v", item.Data, err)
	}
	return next
}

// finish stops an open call and checks its last item.
func finish(t *testing.T, rc cancel.Context, next func() (drt.Item, error, bool)) {
	t.Helper()
	rc.Stop()
	if item, err, ok := next(); !ok || err != nil || string(item.Data) != `"cancelled"` {
		t.Fatalf("after stop: %q, %v", item.Data, err)
	}
	if item, err, ok := next(); ok {
		t.Fatalf("after the end: %q, %v", item.Data, err)
	}
}

// Other runtimes no longer see a closed runtime, and the calls that it was answering end.
func TestClose(t *testing.T) {
	_, config := servers(t, stack.Options{})
	rt, err := drt.Connect(limited(t), config)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, rt, "generate", counter, drt.ServeOptions{})
	c := client(t, join(t, config), "generate", 1)
	rc := cancel.New("")
	next := open(t, c, rc)
	closed := make(chan error, 1)
	go func() { closed <- rt.Close(limited(t)) }()
	await(t, c, 0) // the instance leaves discovery before the runtime has ended
	if _, err := call(t, c, `{}`, drt.RoundRobin()); !errors.Is(err, drt.ErrNoInstances) {
		t.Errorf("a new call: %v, want no instances", err)
	}
	finish(t, rc, next)
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// After its lease is revoked, a worker ends (Exit) or registers again under the same id (Reregister).
func TestLeaseRevoked(t *testing.T) {
	s, config := servers(t, stack.Options{})
	c := etcd(t, s)
	for _, reaction := range []drt.LeaseLoss{drt.Exit, drt.Reregister} {
		t.Run(string(reaction), func(t *testing.T) {
			config := config
			config.LeaseLoss = reaction
			rt := join(t, config)
			serving := serve(t, rt, "generate", counter, drt.ServeOptions{})
			caller := client(t, join(t, config), "generate", 1)
			rc := cancel.New("")
			next := open(t, caller, rc)
			id := rt.ID()
			revoked, err := c.Revoke(limited(t), clientv3.LeaseID(id))
			if err != nil {
				t.Fatal(err)
			}
			revision := revoked.Header.Revision
			if reaction == drt.Exit {
				awaitDone(t, rt.Done())
				if err := rt.Err(); !errors.Is(err, drt.ErrLeaseLost) {
					t.Errorf("%v, want a lost lease", err)
				}
				await(t, caller, 0)
			} else {
				awaitWritten(t, s, "v1/instances/test/backend/generate/"+strconv.FormatUint(id, 16), revision)
				if rt.ID() != id || rt.Err() != nil {
					t.Errorf("id %x, %v, want %x still and no error", rt.ID(), rt.Err(), id)
				}
				await(t, caller, 1)
				var got string
				poll.Until(t, "a new call, once the caller has learned of the loss and of the new key", func() bool {
					got, err = call(t, caller, `{"n":1}`, drt.RoundRobin())
					return err == nil
				})
				if got != `0 "done"` {
					t.Errorf("a new call: %q", got)
				}
			}
			for ctx := limited(t); serving.Active() != 1; { // the new call may still be ending
				if ctx.Err() != nil {
					t.Fatalf("%d requests are being answered, want the one that was", serving.Active())
				}
				runtime.Gosched()
			}
			finish(t, rc, next)
		})
	}
}

func awaitDone(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-limited(t).Done():
		t.Fatal("nothing happened")
	}
}

// awaitWritten waits until a key has been created after a revision.
func awaitWritten(t *testing.T, s *stack.Stack, key string, revision int64) {
	t.Helper()
	c := etcd(t, s)
	ctx := limited(t)
	poll.Until(t, key+" is written", func() bool {
		r, err := c.Get(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		return len(r.Kvs) == 1 && r.Kvs[0].CreateRevision > revision
	})
}

// While NATS is down, streams continue and new calls fail soon. After NATS returns, calls succeed.
func TestNATSKilled(t *testing.T) {
	s, config := servers(t, stack.Options{})
	rt := join(t, config)
	serve(t, rt, "generate", counter, drt.ServeOptions{})
	c := client(t, join(t, config), "generate", 1)
	rc := cancel.New("")
	next := open(t, c, rc)
	s.KillNATS()
	if _, err := call(t, c, `{}`, drt.Direct(rt.ID())); !errors.Is(err, fault.CannotConnect) {
		t.Errorf("a new call: %v, want CannotConnect", err)
	}
	finish(t, rc, next)
	if err := s.RestartNATS(limited(t)); err != nil {
		t.Fatal(err)
	}
	for ctx := limited(t); ; {
		got, err := call(t, c, `{"n":1}`, drt.RoundRobin())
		if err == nil && got == `0 "done"` {
			break
		}
		if err == nil || ctx.Err() != nil {
			t.Fatalf("after it is back: %q, %v", got, err)
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// mute registers an instance that never calls home. acknowledges sets whether the instance acknowledges requests.
func mute(t *testing.T, s *stack.Stack, id uint64, acknowledges bool) (asked <-chan struct{}) {
	t.Helper()
	conn, err := nats.Connect(s.NATSURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	subject := fmt.Sprintf("test_backend.generate-%x", id)
	requests := make(chan struct{}, 100)
	if _, err := conn.Subscribe(subject, func(m *nats.Msg) {
		if acknowledges {
			_ = m.Respond(nil)
		}
		requests <- struct{}{}
	}); err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	value := fmt.Sprintf(`{"type":"Endpoint","namespace":"test","component":"backend","endpoint":"generate","instance_id":%d,"transport":{"nats_tcp":%q}}`, id, subject)
	if _, err := etcd(t, s).Put(limited(t), fmt.Sprintf("v1/instances/test/backend/generate/%x", id), value); err != nil {
		t.Fatal(err)
	}
	return requests
}

// A call fails if its worker does not call home in time. The call fails at once if the worker's key is removed.
// Further calls fail until the tombstone ends.
func TestNeverCallsHome(t *testing.T) {
	for _, acknowledges := range []bool{true, false} {
		t.Run(fmt.Sprint("acknowledges ", acknowledges), func(t *testing.T) { neverCallsHome(t, acknowledges) })
	}
}

func neverCallsHome(t *testing.T, acknowledges bool) {
	t.Helper()
	s, config := servers(t, stack.Options{})
	asked := mute(t, s, 5, acknowledges)
	config.CallHome, config.Acknowledge = 50*time.Millisecond, 50*time.Millisecond
	if _, err := call(t, client(t, join(t, config), "generate", 1), `{}`, drt.RoundRobin()); !errors.Is(err, fault.ConnectionTimeout) {
		t.Errorf("%v, want ConnectionTimeout", err)
	}
	<-asked

	config.CallHome, config.Acknowledge = timeLimit, timeLimit
	c := client(t, join(t, config), "generate", 1)
	failed := make(chan error, 1)
	go func() {
		_, err := call(t, c, `{}`, drt.RoundRobin())
		failed <- err
	}()
	<-asked
	if _, err := etcd(t, s).Delete(limited(t), "v1/instances/test/backend/generate/5"); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, fault.Disconnected) {
		t.Errorf("its key is gone: %v, want Disconnected", err)
	}
}

// A call that is cancelled before the worker calls home ends.
func TestCancelledBeforeCallHome(t *testing.T) {
	for _, acknowledges := range []bool{true, false} {
		t.Run(fmt.Sprint("acknowledges ", acknowledges), func(t *testing.T) { cancelledBeforeCallHome(t, acknowledges) })
	}
}

func cancelledBeforeCallHome(t *testing.T, acknowledges bool) {
	t.Helper()
	s, config := servers(t, stack.Options{})
	config.CallHome, config.Acknowledge = timeLimit, timeLimit
	asked := mute(t, s, 5, acknowledges)
	c := client(t, join(t, config), "generate", 1)
	for _, end := range []func(cancel.Context, context.CancelFunc){
		func(rc cancel.Context, _ context.CancelFunc) { rc.Stop() },
		func(rc cancel.Context, _ context.CancelFunc) { rc.Kill() },
		func(_ cancel.Context, give context.CancelFunc) { give() },
	} {
		ctx, give := context.WithCancel(limited(t))
		defer give()
		rc := cancel.New("")
		failed := make(chan error, 1)
		go func() {
			_, err := c.Generate(ctx, rc, &drt.Request{Payload: json.RawMessage(`{}`)}, drt.RoundRobin())
			failed <- err
		}()
		<-asked
		end(rc, give)
		if err := <-failed; !errors.Is(err, fault.Cancelled) {
			t.Errorf("%v, want Cancelled", err)
		}
	}
	if got := c.Available(); len(got) != 1 {
		t.Errorf("available %v, want the instance: nothing is wrong with it", got)
	}
}
