package drt_test

import (
	"encoding/json"
	"sync"
	"testing"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/drt/drttest"
	"github.com/replay-llm/replay/live/fault"
)

// All calls between a caller and a worker share one connection. A running stream continues to its end after both
// runtimes close, and then the connection ends.
func TestSharedConnection(t *testing.T) {
	hub := drttest.Start(t)
	worker, caller := join(t, hub.Config()), join(t, hub.Config())
	serve(t, worker, "generate", counter, drt.ServeOptions{})
	c := client(t, caller, "generate", 1)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if got, err := call(t, c, `{"n":100}`, drt.RoundRobin()); err != nil || got != numbers(100)+` "done"` {
				t.Errorf("%.40q, %v", got, err)
			}
		})
	}
	all.Wait()
	if accepted, opened := caller.Lines(), worker.Lines(); accepted != 1 || opened != 1 {
		t.Errorf("%d connections accepted and %d opened, want one", accepted, opened)
	}
	rc := cancel.New("")
	s, err := c.Generate(limited(t), rc, &drt.Request{Payload: json.RawMessage(`{"n":2,"block":true}`)}, drt.RoundRobin())
	if err != nil {
		t.Fatal(err)
	}
	if err := caller.Close(limited(t)); err != nil {
		t.Fatal(err)
	}
	rc.Stop()
	if got, err := collect(s); err != nil || got != `0 1 "cancelled"` {
		t.Errorf("after the end of the caller's runtime: %q, %v", got, err)
	}
	if !poll.Wait(func() bool { return caller.Lines() == 0 && worker.Lines() == 0 }) {
		t.Errorf("%d connections accepted and %d opened after the last stream, want none", caller.Lines(), worker.Lines())
	}
}

// If the shared connection ends, the calls on it fail, and the next call opens a new connection.
func TestSharedConnectionBreaks(t *testing.T) {
	hub := drttest.Start(t)
	worker := join(t, hub.Config())
	serve(t, worker, "generate", counter, drt.ServeOptions{})
	config := hub.Config()
	config.Inhibit = 1
	caller := join(t, config)
	c := client(t, caller, "generate", 1)
	s, err := c.Generate(limited(t), cancel.New(""), &drt.Request{Payload: json.RawMessage(`{"n":1,"block":true}`)}, drt.RoundRobin())
	if err != nil {
		t.Fatal(err)
	}
	caller.CutLines()
	if got, err := collect(s); !isType(err, fault.Disconnected) {
		t.Errorf("%q, %v, want Disconnected", got, err)
	}
	if got, err := call(t, c, `{"n":1}`, drt.RoundRobin()); err != nil || got != `0 "done"` {
		t.Errorf("the next call: %q, %v", got, err)
	}
}
