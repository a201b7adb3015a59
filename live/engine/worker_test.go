package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/fault"
)

// A worker serves until a signal, and then shuts down in order.
func TestWorkerLife(t *testing.T) {
	b := newBench(t)
	e := &probeEngine{}
	e.generate = func(_ context.Context, rq *Request, _ GenContext, yield func(*Chunk, error) bool) {
		e.note("generate")
		_ = yield(token(uint32(len(rq.TokenIDs))), nil) && yield(finish(FinishStop), nil)
	}
	done := b.run(t, e)
	<-b.ready
	if keys := b.hub.Keys(t); len(keys) != 3 {
		t.Errorf("keys %q, want a card and an instance in two layouts", keys)
	}
	var words []string
	chunks, err := b.client(t).Generate(t.Context(), cancel.New(""), request(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for c, err := range chunks {
		words = append(words, word(c, err))
	}
	if !slices.Equal(words, []string{"[3]", "stop"}) {
		t.Errorf("%q", words)
	}
	b.signals <- syscall.SIGTERM
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := e.String(); got != "start generate drain cleanup" {
		t.Errorf("calls %q", got)
	}
	if keys := b.hub.Keys(t); len(keys) != 0 {
		t.Errorf("keys %q are left", keys)
	}
	for name, want := range map[string]float64{
		"dynamo_component_requests_total": 1, "dynamo_component_inflight_requests": 0, "dynamo_component_cancellation_total": 0,
		"dynamo_component_request_duration_seconds": 1,
	} {
		if got := b.metrics.Value(name, nil); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if b.metrics.Value("dynamo_component_request_bytes_total", nil) == 0 || b.metrics.Value("dynamo_component_response_bytes_total", nil) == 0 {
		t.Error("no bytes were counted")
	}
}

// After a failed start, Cleanup is called once, and no key is left in discovery.
func TestStartFails(t *testing.T) {
	for name, start := range map[string]func() error{
		"error": func() error { return fault.New(fault.BackendInvalidArgument, "no such model") },
		"panic": func() error { panic("boo") },
	} {
		b := newBench(t)
		e := &probeEngine{start: start, cleanup: errors.New("cleanup broke, too")}
		err := Run(e, b.config)
		var typed *Error
		if !errors.As(err, &typed) {
			t.Errorf("%s: %v, want an *Error", name, err)
		}
		if got := e.String(); got != "start cleanup" {
			t.Errorf("%s: calls %q", name, got)
		}
		if keys := b.hub.Keys(t); len(keys) != 0 {
			t.Errorf("%s: keys %q are left", name, keys)
		}
	}
}

// noModel is an engine with a config that lacks the required Model.
type noModel struct{ probeEngine }

func (n *noModel) Start(context.Context, uint64) (EngineConfig, error) {
	n.note("start")
	return EngineConfig{}, nil
}

func TestStartWithoutModel(t *testing.T) {
	e := &noModel{}
	if err := Run(e, newBench(t).config); !errors.Is(err, fault.BackendInvalidArgument) {
		t.Errorf("%v, want an invalid argument", err)
	}
	if got := e.String(); got != "start cleanup" {
		t.Errorf("calls %q", got)
	}
}

// A signal before the engine's start ends the worker without a start. A signal during the start does not interrupt
// the start.
func TestEarlySignals(t *testing.T) {
	b := newBench(t)
	ctx, end := context.WithCancel(t.Context())
	end()
	e := &probeEngine{}
	w, err := NewWorker(e, b.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(ctx); err != nil || e.String() != "" {
		t.Errorf("signalled before: %v, calls %q, want none", err, e)
	}
	if err := w.Run(ctx); w.rt != nil && !errors.Is(err, fault.BackendInvalidArgument) {
		t.Errorf("a second run: %v", err)
	}

	b = newBench(t)
	e = &probeEngine{}
	e.start = func() error {
		b.signals <- syscall.SIGTERM
		// The worker reads the signal from the channel while this function runs.
		poll.Wait(func() bool { return len(b.signals) == 0 })
		e.note("started")
		return nil
	}
	if err := Run(e, b.config); err != nil {
		t.Error(err)
	}
	if got := e.String(); !strings.HasPrefix(got, "start started") || !strings.HasSuffix(got, "drain cleanup") {
		t.Errorf("signalled during start: calls %q", got)
	}
}

// After a signal during a stream, the stream ends normally, new requests are refused, and Cleanup is called.
func TestSignalMidStream(t *testing.T) {
	b := newBench(t)
	e := &probeEngine{}
	draining := make(chan struct{})
	e.drain = func(context.Context) error { close(draining); return errors.New("drain broke") }
	e.generate = func(_ context.Context, _ *Request, _ GenContext, yield func(*Chunk, error) bool) {
		yield(token(1), nil)
		<-draining
		e.note("last")
		yield(finish(FinishStop), nil)
	}
	done := b.run(t, e)
	<-b.ready
	remote := b.client(t)
	chunks, err := remote.Generate(t.Context(), cancel.New(""), request(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for c, err := range chunks {
		if words = append(words, word(c, err)); len(words) == 1 {
			b.signals <- syscall.SIGINT
			<-draining
			if _, err := remote.Generate(t.Context(), cancel.New(""), request(), nil); err == nil {
				t.Error("a request was taken while draining")
			}
		}
	}
	if !slices.Equal(words, []string{"[1]", "stop"}) {
		t.Errorf("%q", words)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := e.String(); got != "start drain last cleanup" {
		t.Errorf("calls %q", got)
	}
}

// During the grace period, the worker has left discovery and still serves callers that know it.
func TestGracePeriod(t *testing.T) {
	b := newBench(t, "DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS=0.3")
	e := &probeEngine{}
	e.generate = func(_ context.Context, _ *Request, _ GenContext, yield func(*Chunk, error) bool) {
		e.note("generate")
		yield(finish(FinishStop), nil)
	}
	done := b.run(t, e)
	<-b.ready
	b.signals <- syscall.SIGTERM
	began := time.Now()
	poll.Until(t, "withdrawn", func() bool { return len(b.hub.Keys(t)) == 0 || e.String() != "start" })
	if got := e.String(); got != "start" && time.Since(began) < 200*time.Millisecond {
		t.Errorf("calls %q before the grace period was over", got)
	}
	if err := <-done; err != nil || time.Since(began) < 300*time.Millisecond {
		t.Errorf("%v after %v, want no error after the grace period", err, time.Since(began))
	}
}

// If the drain hangs, the process exits with code 143.
func TestHangingDrain(t *testing.T) {
	b := newBench(t, "DYN_WORKER_GRACEFUL_SHUTDOWN_TIMEOUT=0.05")
	release := make(chan struct{})
	e := &probeEngine{drain: func(context.Context) error { <-release; return nil }}
	done := b.run(t, e)
	<-b.ready
	b.signals <- syscall.SIGTERM
	if code := <-b.exited; code != 143 {
		t.Errorf("exit %d, want 143", code)
	}
	close(release)
	<-done
}

// A lost lease ends the worker with an error, after a cleanup.
func TestLeaseLost(t *testing.T) {
	b := newBench(t)
	e := &probeEngine{}
	done := b.run(t, e)
	r := <-b.ready
	b.hub.Revoke(t, r.WorkerID)
	if err := <-done; !errors.Is(err, fault.BackendDisconnected) || !errors.Is(err, drt.ErrLeaseLost) {
		t.Errorf("%v, want a lost lease", err)
	}
	if got := e.String(); got != "start drain cleanup" {
		t.Errorf("calls %q", got)
	}
}

func TestConfigErrors(t *testing.T) {
	tests := []struct {
		change func(*WorkerConfig)
		env    string
		want   fault.Type
	}{
		{func(c *WorkerConfig) { c.Mode = "encode" }, "", fault.BackendInvalidArgument},
		{func(c *WorkerConfig) { c.EndpointTypes = "speech" }, "", fault.BackendInvalidArgument},
		{func(c *WorkerConfig) { c.Namespace = "Name Space" }, "", fault.BackendInvalidArgument},
		{func(c *WorkerConfig) {}, "DYN_WORKER_GRACEFUL_SHUTDOWN_TIMEOUT=soon", fault.BackendInvalidArgument},
		{func(c *WorkerConfig) {}, "DYN_SYSTEM_PORT=http", fault.BackendInvalidArgument},
		{func(c *WorkerConfig) {
			c.Runtime = &drt.Config{NATS: drt.NATSConfig{URL: "nats://127.0.0.1:1"}, Connect: 100 * time.Millisecond}
		}, "", fault.BackendCannotConnect},
		{func(c *WorkerConfig) { c.Runtime = nil }, "DYN_DISCOVERY_BACKEND=telepathy", fault.BackendInvalidArgument},
	}
	for i, test := range tests {
		b := newBench(t, test.env)
		test.change(&b.config)
		e := &probeEngine{}
		if err := Run(e, b.config); !errors.Is(err, test.want) || e.String() != "" {
			t.Errorf("%d: %v, calls %q, want %v and none", i, err, e, test.want)
		}
	}
	if l, err := readLimits(func(string) string { return "-3" }); err != nil || l.grace != 0 || l.system != -3 {
		t.Errorf("negative seconds: %+v (%v), want 0", l, err)
	}
}

// The model card has the data that callers need, depending on the mode.
func TestModelCards(t *testing.T) {
	for mode, want := range map[Mode]string{
		Aggregated: `{"name":"probe","model_name":"probe","model_type":["chat","completions"],"worker_type":"agg","context_length":4096,"kv_cache_block_size":16,` +
			`"runtime_config":{"data_parallel_size":1,"data_parallel_start_rank":0,"enable_local_indexer":true,"kv_routing":true}}`,
		Prefill: `{"name":"probe","model_name":"probe","model_type":["prefill"],"worker_type":"prefill","needs":["decode"],"context_length":4096,"kv_cache_block_size":16,` +
			`"runtime_config":{"data_parallel_size":1,"data_parallel_start_rank":0,"enable_local_indexer":true,"kv_routing":true,"bootstrap_host":"h","bootstrap_port":7}}`,
		Decode: `{"name":"probe","model_name":"probe","model_type":["chat","completions"],"worker_type":"decode","needs":["prefill"],"context_length":4096,"kv_cache_block_size":16,` +
			`"runtime_config":{"data_parallel_size":1,"data_parallel_start_rank":0,"enable_local_indexer":false,"kv_routing":true}}`,
	} {
		b := newBench(t)
		b.config.Mode = mode
		done := b.run(t, &probeEngine{})
		<-b.ready
		rt, err := drt.Connect(t.Context(), *b.config.Runtime)
		if err != nil {
			t.Fatal(err)
		}
		cards, err := rt.Cards(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if all, _ := cards.List(); len(all) != 1 || string(all[0].JSON) != want {
			t.Errorf("%s: cards %s, want one:\n%s", mode, all[0].JSON, want)
		}
		b.signals <- syscall.SIGTERM
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := rt.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// Errors keep their type from the engine to the caller, before the stream and during the stream. A stop reaches the
// engine and is counted once.
func TestOverTheRuntime(t *testing.T) {
	b := newBench(t)
	e := &probeEngine{}
	e.setup = func(rq *Request) error {
		if rq.Model == "refuse" {
			return fault.New(fault.InvalidArgument, "no")
		}
		return nil
	}
	e.generate = func(ctx context.Context, rq *Request, rc GenContext, yield func(*Chunk, error) bool) {
		yield(token(1), nil)
		switch rq.Model {
		case "fail":
			yield(nil, fmt.Errorf("pass 3: %w", fault.New(fault.BackendResponseTimeout, "GPU asleep")))
		case "panic":
			panic("boo")
		case "more":
			_ = yield(finish(FinishStop), nil) && yield(token(2), nil)
			yield(nil, fault.BackendUnknown)
		case "wait":
			<-rc.Stopped()
			yield(&Chunk{FinishReason: FinishCancelled, CompletionUsage: NewUsage(3, 1)}, nil)
		}
	}
	done := b.run(t, e)
	<-b.ready
	remote := b.client(t)
	call := func(model string, stop bool) []string {
		rc := cancel.New("")
		rq := request()
		rq.Model = model
		chunks, err := remote.Generate(t.Context(), rc, rq, nil)
		if err != nil {
			return []string{word(nil, err)}
		}
		var words []string
		for c, err := range chunks {
			words = append(words, word(c, err))
			if stop {
				rc.Stop()
			}
		}
		return words
	}
	for model, want := range map[string][]string{
		"refuse": {"Backend(InvalidArgument)"},
		"fail":   {"[1]", "Backend(ResponseTimeout)"},
		"panic":  {"[1]", "Backend(Unknown)"},
		"short":  {"[1]", "Backend(StreamIncomplete)"},
		"more":   {"[1]", "stop"},
		"wait":   {"[1]", "cancelled"},
	} {
		if got := call(model, model == "wait"); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", model, got, want)
		}
	}
	b.signals <- syscall.SIGTERM
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := e.aborts.Load(); n != 1 {
		t.Errorf("%d aborts, want 1", n)
	}
	if got := b.metrics.Value("dynamo_component_cancellation_total", nil); got != 1 {
		t.Errorf("%v cancellations were counted, want 1", got)
	}
	if got := b.metrics.Value("dynamo_component_errors_total", map[string]string{"error_type": "generate"}); got != 1 {
		t.Errorf("%v errors of generate were counted, want 1", got)
	}
}
