package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/cluster"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/drt/drttest"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/route"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/registry"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/replay/online"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hang is the timeout of a test, longer than any step needs.
const hang = time.Minute

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, end := context.WithTimeout(context.Background(), hang)
	t.Cleanup(end)
	return ctx
}

// reply is the answer of a fake worker to a request.
type reply func(rc cancel.Context, rq *engine.Request, yield func(drt.Item, error) bool)

// item returns a chunk as an item of the runtime.
func item(t *testing.T, tokens int, reason engine.FinishReason, cachedTokens int) drt.Item {
	c := &engine.Chunk{TokenIDs: make([]uint32, tokens), FinishReason: reason}
	if reason != "" {
		c.CompletionUsage = engine.NewUsage(1, 1)
		c.CompletionUsage.PromptTokensDetails = &engine.PromptTokensDetails{CachedTokens: uint32(cachedTokens)}
	}
	b, err := json.Marshal(c)
	if err != nil {
		t.Error(err)
	}
	return drt.Item{Data: b, Last: reason != ""}
}

// fakes serves an endpoint with one instance per reply.
func fakes(t *testing.T, hub *drttest.Servers, replies ...reply) {
	t.Helper()
	for _, answer := range replies {
		rt := connect(t, hub)
		e, err := rt.Endpoint("test", "backend", "generate")
		if err != nil {
			t.Fatal(err)
		}
		if err := e.PutCard(within(t), json.RawMessage(`{"name":"fake","worker_type":"agg"}`)); err != nil {
			t.Fatal(err)
		}
		s, err := e.Serve(func(_ context.Context, rc cancel.Context, rq *drt.Request) (iter.Seq2[drt.Item, error], error) {
			in, err := engine.DecodeRequest(rq.Payload)
			if err != nil {
				return nil, err
			}
			return func(yield func(drt.Item, error) bool) { answer(rc, in, yield) }, nil
		}, drt.ServeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Register(within(t)); err != nil {
			t.Fatal(err)
		}
	}
}

func connect(t *testing.T, hub *drttest.Servers) *drt.Runtime {
	t.Helper()
	rt, err := drt.Connect(within(t), hub.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close(within(t)) })
	return rt
}

// play replays a trace, one request per line, on workers.
func play(t *testing.T, ctx context.Context, trace string, workers int, hub *drttest.Servers) *harness.Result {
	t.Helper()
	w, err := registry.Read(strings.NewReader(trace), "t.jsonl", formats.Options{Format: formats.Mooncake, TraceBlock: 16})
	if err != nil {
		t.Fatal(err)
	}
	s, err := cluster.Open(within(t), connect(t, hub), cluster.Options{
		Workers: drt.Name{Namespace: "test", Component: "backend", Endpoint: "generate"}, Count: workers,
		Routing: route.Options{Warn: func(text string) { t.Log(text) }},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := online.Drive(ctx, online.Config{Config: harness.Config{
		Workload: w, Admission: loadgen.Admission{Mode: loadgen.Trace, Speedup: 1},
		Topology: engines.Topology{Pools: engines.OnePool(engineargs.Default(), 1)},
	}}, func(rec *online.Recorder, clock *online.Clock) (online.Target, error) {
		return cluster.NewTarget(w, s, rec, clock), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	cluster.List(r)
	return r
}

// whole answers with the requested number of tokens, two per chunk, and reports 3 cached tokens.
func whole(t *testing.T) reply {
	return func(_ cancel.Context, rq *engine.Request, yield func(drt.Item, error) bool) {
		if rq.Model != "fake" {
			t.Errorf("model %q, want fake", rq.Model)
		}
		n := int(rq.MaxTokens(0))
		for ; n > 2; n -= 2 {
			if !yield(item(t, 2, "", 0), nil) {
				return
			}
		}
		yield(item(t, n, engine.FinishLength, 3), nil)
	}
}

// line returns a request of a trace.
func line(at, input, output int, ids ...uint64) string {
	b, err := json.Marshal(map[string]any{"timestamp": at, "input_length": input, "output_length": output, "hash_ids": ids})
	if err != nil {
		panic(err)
	}
	return string(b) + "\n"
}

// errorsOf returns the value of online.errors in the report.
func errorsOf(t *testing.T, r *harness.Result) map[string]any {
	t.Helper()
	for _, f := range r.Report.Fields() {
		if f.Key != "online" {
			continue
		}
		for _, g := range f.Value().([]collector.Field) {
			if g.Key == "errors" {
				return asMap(g.Value().([]collector.Field))
			}
		}
	}
	t.Fatal("no online.errors")
	return nil
}

func asMap(fields []collector.Field) map[string]any {
	m := make(map[string]any)
	for _, f := range fields {
		if inner, ok := f.Value().([]collector.Field); ok {
			m[f.Key] = asMap(inner)
		} else {
			m[f.Key] = f.Value()
		}
	}
	return m
}

// The report contains the completed requests with their arrivals, tokens and cached tokens.
func TestWhole(t *testing.T) {
	hub := drttest.Start(t)
	fakes(t, hub, whole(t), whole(t))
	r := play(t, t.Context(), line(0, 20, 5, 1, 2)+line(1, 30, 1, 1, 3)+line(2, 16, 8, 4)+line(2, 7, 3, 5), 2, hub)
	if r.Report.Requests != 4 || r.Report.Completed != 4 || r.Report.OutputTokens != 17 || r.Report.InputTokens != 73 {
		t.Errorf("report %+v", r.Report)
	}
	if want := 12.0 / 73; r.Report.PrefixCacheReusedRatio != want {
		t.Errorf("reused %v, want %v", r.Report.PrefixCacheReusedRatio, want)
	}
	if got := errorsOf(t, r); got["count"] != 0 {
		t.Errorf("errors %v, want none", got)
	}
	for id, record := range r.Collector.Requests() {
		if record.Tokens != record.OutputTokens || record.First < record.Arrival || record.Last < record.First || record.Admit < record.Arrival {
			t.Errorf("request %d: %+v", id, record)
		}
	}
}

// For each kind of failure, the request has an arrival only, and is listed with its error type.
func TestFailures(t *testing.T) {
	for _, test := range []struct {
		name string
		bad  reply
		kind fault.Type
		word string
	}{
		{"error item", func(_ cancel.Context, _ *engine.Request, yield func(drt.Item, error) bool) {
			_ = yield(item(t, 1, "", 0), nil) && yield(drt.Item{}, fault.New(fault.BackendInvalidArgument, "no way"))
		}, fault.BackendInvalidArgument, "after 1 tokens"},
		{"error chunk", func(_ cancel.Context, _ *engine.Request, yield func(drt.Item, error) bool) {
			yield(item(t, 0, engine.FinishError("boom"), 0), nil)
		}, fault.Unknown, "boom"},
		{"no end", func(_ cancel.Context, _ *engine.Request, yield func(drt.Item, error) bool) {
			yield(item(t, 1, "", 0), nil)
		}, fault.BackendStreamIncomplete, "without a last chunk"},
		{"too short", func(_ cancel.Context, _ *engine.Request, yield func(drt.Item, error) bool) {
			yield(item(t, 1, engine.FinishStop, 0), nil)
		}, fault.Unknown, "1 tokens, must be 4"},
		{"cancelled", func(_ cancel.Context, _ *engine.Request, yield func(drt.Item, error) bool) {
			yield(item(t, 1, engine.FinishCancelled, 0), nil)
		}, fault.Cancelled, "cancelled by the worker"},
	} {
		t.Run(test.name, func(t *testing.T) {
			hub := drttest.Start(t)
			good := whole(t)
			fakes(t, hub, func(rc cancel.Context, rq *engine.Request, yield func(drt.Item, error) bool) {
				if len(rq.TokenIDs) == 9 {
					test.bad(rc, rq, yield)
					return
				}
				good(rc, rq, yield)
			})
			r := play(t, t.Context(), line(0, 16, 2, 1)+line(0, 9, 4, 2)+line(1, 16, 3, 3), 1, hub)
			if r.Report.Requests != 3 || r.Report.Completed != 2 || r.Report.OutputTokens != 5 {
				t.Errorf("report %+v", r.Report)
			}
			got := errorsOf(t, r)
			types, requests := got["types"].(map[string]any), got["requests"].(map[string]any)
			text := fmt.Sprint(requests["t.jsonl:2"])
			if got["count"] != 1 || types[string(test.kind)] != 1 || !strings.Contains(text, test.word) {
				t.Errorf("errors %v, want one of type %s for t.jsonl:2 with %q", got, test.kind, test.word)
			}
			if s := online.Summary(r.Failed); !strings.HasPrefix(s, "1 requests did not complete: t.jsonl:2: worker ") {
				t.Errorf("summary %q", s)
			}
		})
	}
}

// The end of a replay stops the requests in flight, which count as cancelled.
func TestEnd(t *testing.T) {
	hub := drttest.Start(t)
	ctx, end := context.WithCancelCause(context.Background())
	cause := errors.New("enough")
	stopped := make(chan struct{})
	fakes(t, hub, func(rc cancel.Context, _ *engine.Request, yield func(drt.Item, error) bool) {
		yield(item(t, 1, "", 0), nil)
		end(cause)
		<-rc.Stopped()
		close(stopped)
		yield(item(t, 0, engine.FinishCancelled, 0), nil)
	})
	r := play(t, ctx, line(0, 16, 50, 1), 1, hub)
	<-stopped
	if !errors.Is(r.Cause, cause) || r.Cancelled != 1 || len(r.Failed) != 0 || r.Report.Completed != 0 {
		t.Errorf("cause %v, %d cancelled, %v failed, %d completed", r.Cause, r.Cancelled, r.Failed, r.Report.Completed)
	}
}

// Prompts that share blocks share tokens. Hash ids of more than 32 bits are not confused.
func TestTokens(t *testing.T) {
	hub := drttest.Start(t)
	seen := make(chan []uint32, 10)
	good := whole(t)
	fakes(t, hub, func(rc cancel.Context, rq *engine.Request, yield func(drt.Item, error) bool) {
		seen <- rq.TokenIDs
		good(rc, rq, yield)
	})
	const far = uint64(1) << 32
	play(t, t.Context(), line(0, 40, 1, 1, 2, 3)+line(1000, 40, 1, 1, 2+far, 3+far), 1, hub)
	a, b := <-seen, <-seen
	if len(a) != 40 || len(b) != 40 {
		t.Fatalf("%d and %d tokens, want 40 each", len(a), len(b))
	}
	for i := range a {
		if shared := i < 16; (a[i] == b[i]) != shared {
			t.Errorf("token %d: %d and %d, shared should be %v", i, a[i], b[i], shared)
		}
	}
}

// If there are too few workers, Open fails.
func TestNobody(t *testing.T) {
	ctx, end := context.WithTimeoutCause(context.Background(), time.Millisecond, errors.New("not soon enough"))
	defer end()
	_, err := cluster.Open(ctx, connect(t, drttest.Start(t)), cluster.Options{
		Workers: drt.Name{Namespace: "test", Component: "backend", Endpoint: "generate"}, Count: 1,
	})
	if !errors.Is(err, fault.CannotConnect) || !strings.Contains(err.Error(), "0 workers, must be 1") || !strings.Contains(err.Error(), "not soon enough") {
		t.Errorf("error %v", err)
	}
}
