package drt_test

import (
	"context"
	"encoding/json"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/drt/drttest"
)

// flood answers with items of 4 KiB until it is stopped.
func flood(ctx context.Context, rc cancel.Context, _ *drt.Request) (iter.Seq2[drt.Item, error], error) {
	data := json.RawMessage(`"` + strings.Repeat("x", 4096) + `"`)
	return func(yield func(drt.Item, error) bool) {
		for ctx.Err() == nil && !rc.IsStopped() {
			if !yield(drt.Item{Data: data}, nil) {
				return
			}
		}
	}, nil
}

// A request of a caller that does not read is killed at the limit. The memory of the request is limited, and the
// request does not delay other calls.
func TestSlowCaller(t *testing.T) {
	hub := drttest.Start(t)
	config := hub.Config()
	config.SlowClient = 300 * time.Millisecond
	worker := join(t, config)
	m := newCounts()
	slow := serve(t, worker, "flood", flood, drt.ServeOptions{Metrics: m.Endpoint})
	serve(t, worker, "generate", counter, drt.ServeOptions{})
	caller := join(t, hub.Config())
	c, quick := client(t, caller, "flood", 1), client(t, caller, "generate", 1)

	s, err := c.Generate(limited(t), cancel.New(""), &drt.Request{Payload: json.RawMessage(`{}`)}, drt.RoundRobin())
	if err != nil {
		t.Fatal(err)
	}
	var others sync.WaitGroup
	for range 50 {
		others.Go(func() {
			if got, err := call(t, quick, `{"n":200}`, drt.RoundRobin()); err != nil || got != numbers(200)+` "done"` {
				t.Errorf("beside a slow caller: %.40q, %v", got, err)
			}
		})
	}
	others.Wait()
	if err := slow.Wait(limited(t)); err != nil {
		t.Fatal(err)
	}
	if m.failures("publish_response") != 1 || m.cancelled() != 1 {
		t.Errorf("%d publish_response, %d cancelled, want 1 and 1", m.failures("publish_response"), m.cancelled())
	}
	// The sent bytes are in the buffers of the runtime and of the sockets.
	if sent := m.sent(); sent > 64<<20 {
		t.Errorf("%d bytes were taken for a caller that reads nothing, want at most 64 MiB", sent)
	}
	if _, err := collect(s); err == nil {
		t.Error("the stream ended well, want an error: it was cut")
	}
}

// After streams end, no goroutine and no connection is left.
func TestNothingIsLeft(t *testing.T) {
	hub := drttest.Start(t)
	worker, caller := join(t, hub.Config()), join(t, hub.Config())
	s := serve(t, worker, "generate", counter, drt.ServeOptions{})
	c := client(t, caller, "generate", 1)
	if _, err := call(t, c, `{"n":1}`, drt.RoundRobin()); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(limited(t)); err != nil {
		t.Fatal(err)
	}
	before := len(goroutines())
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			rc := cancel.New("")
			stream, err := c.Generate(t.Context(), rc, &drt.Request{Payload: json.RawMessage(`{"n":5,"block":true}`)}, drt.RoundRobin())
			if err != nil {
				t.Error(err)
				return
			}
			switch i % 4 {
			case 0:
				stream.Close()
				return
			case 1:
				rc.Kill()
			case 2:
				for range stream.Items() {
					break
				}
				return
			case 3:
				rc.Stop()
			}
			for range stream.Items() {
				continue
			}
		})
	}
	all.Wait()
	if err := s.Wait(limited(t)); err != nil {
		t.Fatal(err)
	}
	// Goroutines end shortly after their work.
	if !poll.Wait(func() bool { return len(goroutines()) <= before }) {
		left := goroutines()
		t.Errorf("%d goroutines, %d before:\n%s", len(left), before, strings.Join(left, "\n\n"))
	}
}

// goroutines returns the stacks of the goroutines that run code of this project. The embedded servers and their
// clients start and end other goroutines at any time.
func goroutines() []string {
	buf := make([]byte, 1<<16)
	n := runtime.Stack(buf, true)
	for ; n == len(buf); n = runtime.Stack(buf, true) {
		buf = make([]byte, 2*len(buf))
	}
	return slices.DeleteFunc(strings.Split(string(buf[:n]), "\n\n"), func(stack string) bool {
		return !strings.Contains(stack, "replay/live/")
	})
}

// A caller that gets no processor time does not read workers that call home. A caller without processor time does not
// blame the worker: the call continues when the caller runs again.
func TestBusyCaller(t *testing.T) {
	hub := drttest.Start(t)
	serve(t, join(t, hub.Config()), "generate", counter, drt.ServeOptions{})
	config := hub.Config()
	config.CallHome = 100 * time.Millisecond
	caller := join(t, config)
	c := client(t, caller, "generate", 1)
	held := false
	for try := 0; !held && try < 100; try++ { // the call may be answered before the loop sees it
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			if got, err := call(t, c, `{"n":2}`, drt.RoundRobin()); err != nil || got != numbers(2)+` "done"` {
				t.Errorf("%q, %v, want an answer", got, err)
			}
		}()
		if release := caller.HoldUp(asked); release != nil {
			held = true
			time.Sleep(4 * config.CallHome)
			release()
		}
		<-asked
	}
	if !held {
		t.Error("no call was held up")
	}
	if _, err := call(t, c, `{"n":2}`, drt.RoundRobin()); err != nil {
		t.Errorf("after that: %v", err)
	}
}
