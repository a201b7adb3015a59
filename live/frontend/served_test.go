package frontend_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/drt/drttest"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/frontend"
	"github.com/replay-llm/replay/live/kvevents"
	"github.com/replay-llm/replay/live/mocker"
	"github.com/replay-llm/replay/live/route"
	"github.com/replay-llm/replay/live/telemetry"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
)

// party is a worker with a mocker, found over a hub.
type party struct {
	mock    *mocker.Engine
	metrics *telemetry.Metrics
	quit    func()
}

// work runs a worker until quit or the end of the test.
func work(t *testing.T, hub *drttest.Servers, mode engine.Mode, change ...func(*mocker.Options)) *party {
	t.Helper()
	args := engineargs.Default()
	args.Speedup, args.BlockTokens = 20, 16
	o := mocker.Options{Engine: args, Mode: mode}
	component := "backend"
	if mode == engine.Prefill {
		component, o.BootstrapHost = "prefill", "127.0.0.1"
	}
	if mode != engine.Decode {
		o.KVSockets = &kvevents.TeeOptions{Events: "tcp://127.0.0.1:0", Replay: "tcp://127.0.0.1:0"}
	}
	for _, f := range change {
		f(&o)
	}
	mock, err := mocker.New(o)
	if err != nil {
		t.Fatal(err)
	}
	p := &party{mock: mock, metrics: telemetry.NewMetrics()}
	ready, config := make(chan struct{}), hub.Config()
	w, err := engine.NewWorker(mock, engine.WorkerConfig{
		Component: component, Mode: mode, Metrics: p.metrics, Log: slog.New(slog.DiscardHandler),
		Runtime: &config,
		Ready:   func(engine.Ready) error { close(ready); return nil },
		Signals: make(chan os.Signal),
		Getenv: func(name string) string {
			return map[string]string{"DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS": "0"}[name]
		},
		Exit: func(int) { t.Error("shutdown took too long") },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	stopped := false
	p.quit = func() {
		if stopped {
			return
		}
		stopped = true
		end()
		if err := <-ended; err != nil {
			t.Errorf("worker: %v", err)
		}
	}
	t.Cleanup(p.quit)
	select {
	case <-ready:
	case err := <-ended:
		t.Fatalf("worker: %v", err)
	case <-drttest.Within(t).Done():
		t.Fatal("the worker is not ready")
	}
	return p
}

// cancelled returns the number of cancellations that the worker has counted.
func (p *party) cancelled() float64 {
	return p.metrics.Value("dynamo_component_cancellation_total", nil)
}

// found is a frontend for the workers of a hub.
type found struct {
	*site
	catalog *route.Catalog
	metrics *telemetry.Metrics
}

func discover(t *testing.T, hub *drttest.Servers, o route.Options, change ...func(*drt.Config)) *found {
	t.Helper()
	config := hub.Config()
	for _, f := range change {
		f(&config)
	}
	rt := drttest.Connect(t, config)
	f := &found{metrics: telemetry.NewMetrics()}
	o.Metrics = func(drt.Name) *telemetry.Client { return f.metrics.Client(telemetry.Name{}) }
	requests := f.metrics.Requests()
	var err error
	f.catalog, err = route.Follow(drttest.Within(t), rt, o, func(m string) { requests.Known(m, "completions", "chat_completions") })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.catalog.Close)
	f.site = open(t, nil, func(c *frontend.Config) {
		c.Models, c.Metrics, c.Expose = f.catalog, requests, f.metrics.Handler()
	})
	return f
}

// await waits until the model has the given number of instances.
func (f *found) await(t *testing.T, instances int) {
	t.Helper()
	ctx := drttest.Within(t)
	for {
		served, changed := f.catalog.Models()
		if instances == 0 && len(served) == 0 || len(served) == 1 && served[0].Instances == instances {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("models %+v, want one with %d instances", served, instances)
		}
	}
}

// ask returns the body of a completion request with a prompt of this number of tokens.
func ask(tokens, most int, stream bool) string {
	prompt := make([]int, tokens)
	for i := range prompt {
		prompt[i] = i / 100
	}
	b, err := json.Marshal(map[string]any{"model": mocker.DefaultModel, "prompt": prompt, "max_tokens": most, "stream": stream})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// Requests reach workers with each routing policy, and usage is reported. When the workers have ended, the call fails
// because there is no worker.
func TestServed(t *testing.T) {
	for _, info := range policy.All() {
		name := info.Name
		if info.Prompts {
			continue // the frontend keeps no prompts, and rejects the policy
		}
		t.Run(string(name), func(t *testing.T) {
			hub := drttest.Start(t)
			workers := []*party{work(t, hub, engine.Aggregated), work(t, hub, engine.Aggregated)}
			f := discover(t, hub, route.Options{Policy: name, Router: router.DefaultConfig()})
			f.await(t, 2)
			for range 4 {
				r, body := f.post(t, "/v1/completions", ask(40, 6, false))
				if r.StatusCode != http.StatusOK || !strings.Contains(body, `"prompt_tokens":40,"completion_tokens":6,"total_tokens":46`) {
					t.Errorf("%d %s", r.StatusCode, body)
				}
			}
			total := workers[0].requests() + workers[1].requests()
			if total != 4 || name == policy.RoundRobin && workers[0].requests() != 2 {
				t.Errorf("workers got %v and %v requests, want 4 in all", workers[0].requests(), workers[1].requests())
			}
			if r, body := f.post(t, "/v1/completions", ask(9000, 1, false)); r.StatusCode != http.StatusBadRequest {
				t.Errorf("a prompt that is too long: %d %s", r.StatusCode, body)
			}
			workers[0].quit()
			f.await(t, 1)
			if r, body := f.post(t, "/v1/completions", ask(40, 6, true)); r.StatusCode != http.StatusOK {
				t.Errorf("with one worker: %d %s", r.StatusCode, body)
			}
			workers[1].quit()
			f.await(t, 0)
			if r, body := f.post(t, "/v1/completions", ask(40, 6, true)); r.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("without workers: %d %s", r.StatusCode, body)
			}
			if _, body := f.do(t, "GET", "/v1/models", nil); body != `{"object":"list","data":[]}`+"\n" {
				t.Errorf("models %s, want none", body)
			}
		})
	}
}

// Requests with the same X-Session-Id go to the same worker, if the policy reads it.
func TestSessionHeader(t *testing.T) {
	hub := drttest.Start(t)
	workers := []*party{work(t, hub, engine.Aggregated), work(t, hub, engine.Aggregated)}
	f := discover(t, hub, route.Options{Policy: "session"})
	f.await(t, 2)
	const turns = 5
	for session := range 6 {
		before := workers[0].requests()
		for range turns {
			rq, err := http.NewRequest(http.MethodPost, "http://"+f.address+"/v1/completions", strings.NewReader(ask(40, 2, false)))
			if err != nil {
				t.Fatal(err)
			}
			rq.Header.Set("X-Session-Id", fmt.Sprint("session ", session))
			r, err := f.client.Do(rq)
			if err != nil {
				t.Fatal(err)
			}
			_ = r.Body.Close()
		}
		if n := workers[0].requests() - before; n != 0 && n != turns {
			t.Errorf("session %d: %v of %d turns went to one worker, want all or none", session, n, turns)
		}
	}
}

// newContext returns the context of a new request.
func newContext() cancel.Context { return cancel.New("") }

// requests returns the number of requests that the worker has received.
func (p *party) requests() float64 { return p.metrics.Value("dynamo_component_requests_total", nil) }

// A client that leaves before the first byte or during a stream is counted once by the frontend and once by the
// worker. Then the scheduler is empty.
func TestClientLeavesCluster(t *testing.T) {
	hub := drttest.Start(t)
	w := work(t, hub, engine.Aggregated)
	f := discover(t, hub, route.Options{})
	f.await(t, 1)
	for i, test := range []struct {
		name   string
		stream bool
		kind   string
	}{{"before the first byte", false, "unary"}, {"in the middle of the stream", true, "stream"}} {
		c := f.dial(t, raw("/v1/completions", ask(200, 7000, test.stream)))
		if test.stream {
			in := bufio.NewScanner(c)
			for in.Scan() && !strings.HasPrefix(in.Text(), "data: ") {
			}
		} else {
			poll.Until(t, "request on the scheduler", func() bool { return w.mock.ActiveRequests() == 1 })
		}
		c.Close()
		poll.Until(t, "empty scheduler", func() bool { return w.mock.ActiveRequests() == 0 && w.mock.Fullness().ActiveBlocks == 0 })
		labels := map[string]string{"model": mocker.DefaultModel, "endpoint": "completions", "request_type": test.kind}
		poll.Until(t, "counts", func() bool {
			return f.metrics.Value("dynamo_frontend_model_cancellation_total", labels) == 1 && w.cancelled() == float64(i+1)
		})
	}
	// A client with the complete answer is not counted.
	for _, stream := range []bool{false, true} {
		if r, body := f.post(t, "/v1/completions", ask(20, 3, stream)); r.StatusCode != http.StatusOK {
			t.Errorf("%d %s", r.StatusCode, body)
		}
	}
	poll.Until(t, "an end", func() bool { return w.metrics.Value("dynamo_component_inflight_requests", nil) == 0 && f.Active() == 0 })
	if all := f.metrics.Value("dynamo_frontend_model_cancellation_total", nil); all != 2 || w.cancelled() != 2 {
		t.Errorf("%v cancellations at the frontend and %v at the worker, want 2 and 2", all, w.cancelled())
	}
	_, text := f.do(t, "GET", "/metrics", nil)
	for _, line := range []string{
		`dynamo_frontend_model_cancellation_total{endpoint="completions",model="mocker-model",request_type="unary"} 1`,
		`dynamo_frontend_model_cancellation_total{endpoint="chat_completions",model="mocker-model",request_type="stream"} 0`,
		`dynamo_frontend_requests_total{endpoint="completions",model="mocker-model",request_type="stream",status="499"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("metrics without %s:\n%s", line, text)
		}
	}
}

// A prefill and a decode worker serve a model together. The model is served when the prefill and the decode worker
// are ready.
func TestPair(t *testing.T) {
	hub := drttest.Start(t)
	decode := work(t, hub, engine.Decode)
	f := discover(t, hub, route.Options{Policy: policy.KV, Router: router.DefaultConfig()})
	if r, _ := f.post(t, "/v1/completions", ask(40, 6, false)); r.StatusCode != http.StatusNotFound {
		t.Errorf("half a pair: %d, want 404", r.StatusCode)
	}
	prefill := work(t, hub, engine.Prefill)
	f.await(t, 1)
	for range 3 {
		r, body := f.post(t, "/v1/completions", ask(40, 6, false))
		if r.StatusCode != http.StatusOK || !strings.Contains(body, `"completion_tokens":6`) {
			t.Errorf("%d %s", r.StatusCode, body)
		}
	}
	if p, d := prefill.requests(), decode.requests(); p != 3 || d != 3 {
		t.Errorf("%v requests for prefill, %v for decode, want 3 each", p, d)
	}
	// A client that leaves stops the request on both workers.
	c := f.dial(t, raw("/v1/completions", ask(200, 7000, true)))
	in := bufio.NewScanner(c)
	for in.Scan() && !strings.HasPrefix(in.Text(), "data: ") {
	}
	c.Close()
	poll.Until(t, "empty schedulers", func() bool { return decode.mock.ActiveRequests()+prefill.mock.ActiveRequests() == 0 })
	poll.Until(t, "a count at decode", func() bool { return decode.cancelled() == 1 })
	if n := prefill.cancelled(); n > 1 {
		t.Errorf("%v cancellations at prefill, want at most one: it may have been over", n)
	}
}

// A request that names its worker goes to this worker or fails.
func TestNamedWorker(t *testing.T) {
	hub := drttest.Start(t)
	workers := []*party{work(t, hub, engine.Aggregated), work(t, hub, engine.Aggregated)}
	f := discover(t, hub, route.Options{})
	f.await(t, 2)
	served, _ := f.catalog.Models()
	pool := served[0].Target.(*route.Pool)
	if err := pool.Await(drttest.Within(t), 2); err != nil {
		t.Fatal(err)
	}
	ids := pool.Workers()
	call := func(id uint64) error {
		rq := &engine.Request{TokenIDs: []uint32{1}, Routing: &engine.Routing{BackendInstanceID: &id}}
		chunks, err := pool.Generate(drttest.Within(t), newContext(), rq, nil)
		if err != nil {
			return err
		}
		for _, err := range chunks {
			if err != nil {
				return err
			}
		}
		return nil
	}
	for range 3 {
		if err := call(ids[1]); err != nil {
			t.Error(err)
		}
	}
	if a, b := workers[0].requests(), workers[1].requests(); a+b != 3 || a != 0 && b != 0 {
		t.Errorf("workers got %v and %v requests, want 3 for one", a, b)
	}
	if err := call(12345); !errors.Is(err, drt.ErrNoInstances) {
		t.Errorf("a worker that is not there: %v", err)
	}
}
