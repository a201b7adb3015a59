package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/poll"
)

// The package's KV router follows the caches of this program's workers on both of its event planes. If the router
// starts after the events, it queries the workers.
func TestInteropPeerRouter(t *testing.T) {
	needPeer(t, "dynamo.frontend")
	for _, c := range []struct{ requests, events string }{{"nats", "nats"}, {"tcp", "zmq"}} {
		t.Run(c.events+" events", func(t *testing.T) { peerRouter(t, c.requests, c.events) })
	}
}

// routed is a frontend of the package and two workers of this program.
type routed struct {
	t       *testing.T
	url     string
	workers [2]*member
}

// routedPrompts is the number of prompts with a cached prefix.
const routedPrompts = 4

// settling is the time limit for events to reach a program that does not report them.
const settling = 2 * time.Second

func peerRouter(t *testing.T, requests, events string) {
	t.Helper()
	c := newPeers(t)
	model := peerModel(t)
	var f routed
	f.t = t
	for i := range f.workers {
		f.workers[i] = c.worker("--model-name=ours", "--block-size=16", "--request-plane="+requests, "--model-path="+model)
	}
	f.url = c.startPeerFront(requests, "kv", "ours", "DYN_EVENT_PLANE="+events)

	// One worker has a long request. Short requests go to the other worker, which then has their prompts in its cache
	// and in the end more load.
	held := f.hold(prompt(0, 3))
	first, other := held.worker, 1-held.worker
	for i := 1; i <= routedPrompts; i++ {
		if w := f.ask(prompt(10*i, 7)); w != other {
			t.Fatalf("the idle worker was not asked: %d, want %d", w, other)
		}
		busy := f.hold(prompt(10*i+1, 5))
		if busy.worker != other {
			t.Fatalf("the less used worker was not asked: %d, want %d", busy.worker, other)
		}
		time.Sleep(settling)
		// The other worker now has five blocks of requests in flight, the first worker three.
		if w := f.ask(prompt(10*i, 7)); w != other {
			t.Errorf("prompt %d went to worker %d, want %d, which has its prefix", i, w, other)
		}
		busy.end()
	}
	held.end()

	late := routed{t, c.startPeerFront(requests, "kv", "ours", "DYN_EVENT_PLANE="+events), f.workers}
	time.Sleep(settling) // the new frontend queries the workers when it finds them
	// Release 1.2.1 counts no blocks of a request for a worker that it has never used.
	used := late.hold(prompt(900, 1))
	if w := late.ask(prompt(901, 1)); w == used.worker {
		t.Fatalf("a frontend that came later: the idle worker was not asked: %d", w)
	}
	used.end()
	for i := 1; i <= 2; i++ {
		busy := late.hold(prompt(10*i+1, 5))
		if w := late.ask(prompt(10*i, 7)); busy.worker != other || w != other {
			t.Errorf("a frontend that came later: prompts %d went to workers %d and %d, want %d, which has their prefixes (not %d)", i, busy.worker, w, other, first)
		}
		busy.end()
	}
}

// prompt returns a text of about the given number of blocks of 16 tokens. The beginning of the text is unique for
// each number.
func prompt(number, blocks int) string {
	return fmt.Sprintf("%04d ", number) + strings.Repeat(fmt.Sprintf("%d is a lucky number ", number), 2*blocks)
}

// counted returns the number of requests that each worker has received.
func (f *routed) counted() (n [2]float64) {
	for i, w := range f.workers {
		n[i] = w.metric("dynamo_component_requests_total", "")
	}
	return n
}

// askedSince waits for a request after the counts n, and returns its worker.
func (f *routed) askedSince(n [2]float64) (worker int) {
	f.t.Helper()
	poll.Until(f.t, "a worker is asked", func() bool {
		for i, now := range f.counted() {
			if now > n[i] {
				worker = i
				return true
			}
		}
		return false
	})
	return worker
}

// ask completes a prompt and returns the worker that served it.
func (f *routed) ask(prompt string) int {
	f.t.Helper()
	before := f.counted()
	if status, body := postJSON(f.t, f.url+"/v1/completions", fmt.Sprintf(`{"model":"ours","max_tokens":2,"prompt":%q}`, prompt)); status != http.StatusOK {
		f.t.Fatalf("%d %s", status, body)
	}
	return f.askedSince(before)
}

// holding is a request in flight.
type holding struct {
	f      *routed
	cancel context.CancelFunc
	worker int
}

// hold starts a long request and waits until a worker has received it.
func (f *routed) hold(prompt string) holding {
	f.t.Helper()
	before := f.counted()
	ctx, cancel := context.WithCancel(context.Background())
	body := fmt.Sprintf(`{"model":"ours","max_tokens":4000,"stream":true,"prompt":%q}`, prompt)
	rq, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url+"/v1/completions", strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	rq.Header.Set("Content-Type", "application/json")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if r, err := http.DefaultClient.Do(rq); err == nil {
			_, _ = io.Copy(io.Discard, r.Body) // ends when the request is cancelled
			r.Body.Close()
		}
	}()
	f.t.Cleanup(func() { cancel(); <-ended })
	return holding{f, cancel, f.askedSince(before)}
}

// end cancels the request and waits until the worker has released it.
func (h holding) end() {
	w := h.f.workers[h.worker]
	before := w.metric("dynamo_component_inflight_requests", "")
	h.cancel()
	poll.Until(h.f.t, "the request has ended", func() bool { return w.metric("dynamo_component_inflight_requests", "") < before })
}

// The package's router can apply every event of a cache with evictions. No block is stored twice, removed twice, or
// has an unknown parent.
func TestInteropPeerEvictions(t *testing.T) {
	needPeer(t, "dynamo.frontend")
	c := newPeers(t)
	c.worker("--model-name=ours", "--block-size=16", "--num-gpu-blocks=48", "--speedup-ratio=20", "--model-path="+peerModel(t))
	url := c.startPeerFront("nats", "kv", "ours")
	completeBoth(t, url, "ours")
	var wg sync.WaitGroup
	for client := range 2 { // with more clients, this frontend would treat the worker as busy
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(client), 0))
			for range 120 {
				text := prompt(r.IntN(8), 1+r.IntN(8)) + strings.Repeat(fmt.Sprint(r.IntN(4)), r.IntN(60))
				if status, body := postJSON(t, url+"/v1/completions", fmt.Sprintf(`{"model":"ours","max_tokens":%d,"prompt":%q}`, 1+r.IntN(20), text)); status != http.StatusOK {
					t.Errorf("%d %s", status, body)
				}
			}
		})
	}
	wg.Wait()
	front := &member{t: t, HTTP: url}
	const applied = "dynamo_component_kv_cache_events_applied"
	poll.Until(t, "events are applied", func() bool { return front.metric(applied, `event_type="removed",status="ok"`) > 50 })
	if all, ok := front.metric(applied, ""), front.metric(applied, `status="ok"`); all != ok {
		t.Errorf("%v of %v events were applied, want all", ok, all)
	}
	if n := front.metric("dynamo_component_kv_cache_event_warnings", ""); n != 0 {
		t.Errorf("%v events with a warning, want none", n)
	}
}
