package frontend_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/frontend"
)

// gate is a model with answers that wait until they are released.
type gate struct {
	mu    sync.Mutex
	order []int // lengths of prompts in order of arrival at the model
	free  chan struct{}
}

func (g *gate) answer(_ context.Context, rc cancel.Context, rq *engine.Request, yield func(*engine.Chunk, error) bool) {
	g.mu.Lock()
	g.order = append(g.order, len(rq.TokenIDs))
	g.mu.Unlock()
	select {
	case <-g.free:
		yield(&engine.Chunk{TokenIDs: []uint32{400}, FinishReason: engine.FinishLength}, nil)
	case <-rc.Stopped():
		yield(&engine.Chunk{FinishReason: engine.FinishCancelled}, nil)
	}
}

// promptOf returns a request with a prompt of n tokens.
func promptOf(n int) string {
	return raw("/v1/completions", `{"model":"m","prompt":[5`+strings.Repeat(",5", n-1)+`]}`)
}

// A request that finds the queue full is refused with 429. A waiting request leaves the queue when its client leaves.
// TestAdmissionOrder tests the order of the waiting requests.
func TestAdmission(t *testing.T) {
	g := &gate{free: make(chan struct{})}
	s := open(t, &fake{answer: g.answer}, func(c *frontend.Config) { c.MaxInFlight, c.MaxQueued = 2, 3 })
	var all []net.Conn
	for n := 1; n <= 5; n++ {
		all = append(all, s.dial(t, promptOf(n)))
		if n <= 2 {
			s.await(t, n, "inflight_requests")
			poll.Until(t, "begun", func() bool { g.mu.Lock(); defer g.mu.Unlock(); return len(g.order) == n })
		} else {
			s.await(t, n-2, "queued_requests")
		}
	}
	r, body := s.post(t, "/v1/completions", `{"model":"m","prompt":"a"}`)
	if want := "2 requests are being answered and 3 wait, and no more may"; r.StatusCode != http.StatusTooManyRequests ||
		r.Header.Get("Retry-After") != "1" || !strings.Contains(body, want) || !strings.Contains(body, "RateLimitError") {
		t.Errorf("beyond the queue: %d, %v, %s", r.StatusCode, r.Header, body)
	}
	if n := s.count("refused_requests_total", "status=429"); n != 1 {
		t.Errorf("%d refused, want 1", n)
	}
	all[3].Close() // the second in the queue
	s.await(t, 2, "queued_requests")
	for i := range 4 { // the answers end one by one
		g.free <- struct{}{}
		s.await(t, i+1, "requests_total")
	}
	for i, c := range all {
		if i != 3 {
			if got := status(t, c); got != http.StatusOK {
				t.Errorf("request %d: status %d", i+1, got)
			}
		}
	}
	if got, want := slices.Sorted(slices.Values(g.order)), []int{1, 2, 3, 5}; !slices.Equal(got, want) {
		t.Errorf("requests %v began, want %v", got, want)
	}
	s.await(t, 0, "queued_requests")
	s.await(t, 0, "inflight_requests")
}

// A request that waits longer than the timeout, or waits when the server ends, gets 503 with its own message.
func TestAdmissionEnds(t *testing.T) {
	for _, c := range []struct {
		patience time.Duration
		says     string
	}{{50 * time.Millisecond, "no place became free in 50ms, and 1 requests are being answered"}, {time.Hour, "the frontend ends, and did not take the request"}} {
		g := &gate{free: make(chan struct{})}
		s := open(t, &fake{answer: g.answer}, func(f *frontend.Config) { f.MaxInFlight, f.MaxQueued, f.QueueTimeout = 1, 1, c.patience })
		s.dial(t, promptOf(1))
		s.await(t, 1, "inflight_requests")
		ended := make(chan struct{})
		if c.patience < time.Hour {
			close(ended)
		} else {
			go func() {
				defer close(ended)
				s.await(t, 1, "queued_requests")
				now, release := context.WithCancel(context.Background())
				release()
				_ = s.Shutdown(now)
			}()
		}
		r, body := s.post(t, "/v1/completions", `{"model":"m","prompt":"a"}`)
		if r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") != "1" || !strings.Contains(body, c.says) {
			t.Errorf("%v: %d, %v, %s", c.patience, r.StatusCode, r.Header, body)
		}
		<-ended
		close(g.free)
	}
}

// Of 200 concurrent requests at most 7 are at the model at once, and all are answered.
func TestAdmissionUnderLoad(t *testing.T) {
	const clients, limit = 200, 7
	var now, most atomic.Int64
	f := &fake{answer: func(ctx context.Context, rc cancel.Context, rq *engine.Request, yield func(*engine.Chunk, error) bool) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		repeat(ctx, rc, rq, yield)
	}}
	s := open(t, f, func(c *frontend.Config) { c.MaxInFlight, c.MaxQueued = limit, clients })
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			r, err := s.client.Post("http://"+s.address+"/v1/completions", "", strings.NewReader(fmt.Sprintf(`{"model":"m","prompt":"a","stream":%v}`, i%2 == 0)))
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Body.Close()
			if r.StatusCode != http.StatusOK {
				t.Errorf("status %d", r.StatusCode)
			}
		})
	}
	wg.Wait()
	s.await(t, clients, "requests_total")
	if m := most.Load(); m > limit {
		t.Errorf("%d at once, want at most %d", m, limit)
	}
	s.await(t, 0, "queued_requests")
}
