package engine

import (
	"context"
	"slices"
	"syscall"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt/drttest"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/telemetry"
)

// recorded returns tracing that keeps its spans in memory.
func recorded() (*telemetry.Tracing, *tracetest.InMemoryExporter) {
	e := tracetest.NewInMemoryExporter()
	return telemetry.New(sdktrace.NewSimpleSpanProcessor(e), "test"), e
}

func attributes(s tracetest.SpanStub) map[string]any {
	all := make(map[string]any)
	for _, a := range s.Attributes {
		all[string(a.Key)] = a.Value.AsInterface()
	}
	return all
}

// The span of a request has its outcome. The first chunk with tokens links to the span. On prefill workers the
// terminal links to the span if no chunk had tokens.
func TestSpansOfOutcomes(t *testing.T) {
	stream := func(chunks ...*Chunk) func(context.Context, *Request, GenContext, func(*Chunk, error) bool) {
		return func(_ context.Context, _ *Request, _ GenContext, yield func(*Chunk, error) bool) {
			for _, c := range chunks {
				if !yield(c, nil) {
					return
				}
			}
		}
	}
	tests := []struct {
		name    string
		mode    Mode
		do      func(context.Context, *Request, GenContext, func(*Chunk, error) bool)
		leave   bool
		want    map[string]any
		stamped []bool
	}{
		{"finished", Aggregated, stream(&Chunk{}, token(1), token(2), finish(FinishLength)), false,
			map[string]any{"finish_reason": "Length", "cancelled": false, "output_tokens": int64(2), "disagg_role": "agg", "input_tokens": int64(3)}, []bool{false, true, false, false}},
		{"prefill without tokens", Prefill, stream(&Chunk{}, finish(FinishLength)), false,
			map[string]any{"finish_reason": "Length", "disagg_role": "prefill"}, []bool{false, true}},
		{"without tokens", Aggregated, stream(finish(FinishStop)), false, map[string]any{"finish_reason": "Stop"}, []bool{false}},
		{"dropped", Aggregated, stream(token(1), token(2)), true, map[string]any{"finish_reason": "Dropped", "cancelled": true}, []bool{true}},
		{"stopped", Aggregated, func(_ context.Context, _ *Request, rc GenContext, yield func(*Chunk, error) bool) {
			rc.Stop()
			yield(finish(FinishCancelled), nil)
		}, false, map[string]any{"finish_reason": "Cancelled", "cancelled": true}, []bool{false}},
		{"failed", Aggregated, func(_ context.Context, _ *Request, _ GenContext, yield func(*Chunk, error) bool) {
			yield(nil, fault.New(fault.BackendInvalidArgument, "x"))
		}, false, map[string]any{"error_kind": "Backend(InvalidArgument)"}, []bool{false}},
	}
	for _, test := range tests {
		tracing, spans := recorded()
		a := NewAdapter(&fake{generate: test.do}, AdapterOptions{Mode: test.mode, Tracing: tracing})
		chunks, err := a.Generate(t.Context(), cancel.New(""), request(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var stamped []bool
		for c := range chunks {
			stamped = append(stamped, c != nil && c.WorkerTraceLink != nil)
			if c != nil && c.WorkerTraceLink != nil {
				test.want["link"] = *c.WorkerTraceLink
			}
			if test.leave {
				break
			}
		}
		if !slices.Equal(stamped, test.stamped) {
			t.Errorf("%s: stamped %v, want %v", test.name, stamped, test.stamped)
		}
		all := spans.GetSpans()
		if len(all) != 1 {
			t.Fatalf("%s: %d spans, want one", test.name, len(all))
		}
		c := all[0].SpanContext
		got := attributes(all[0])
		got["link"] = TraceLink{c.TraceID().String(), c.SpanID().String()}
		for k, v := range test.want {
			if got[k] != v {
				t.Errorf("%s: %s is %v, want %v", test.name, k, got[k], v)
			}
		}
	}
	tracing, spans := recorded()
	a := NewAdapter(&fake{setup: func(*Request) error { return fault.BackendEngineShutdown }}, AdapterOptions{Tracing: tracing})
	if _, err := a.Generate(t.Context(), cancel.New(""), request(), nil); err == nil {
		t.Error("no error")
	}
	if got := attributes(spans.GetSpans()[0])["error_kind"]; got != "setup_failed" {
		t.Errorf("error_kind is %v", got)
	}
}

// The spans of prefill and decode on two workers behind a frontend form one tree. The span of decode links to the
// span of prefill.
func TestOneTree(t *testing.T) {
	s := newStages()
	s.prefill.generate = func(_ context.Context, _ *Request, _ GenContext, yield func(*Chunk, error) bool) {
		yield(&Chunk{TokenIDs: []uint32{9}, FinishReason: FinishLength, DisaggregatedParams: []byte(`1`)}, nil)
	}
	work, workSpans := recorded()
	hub := drttest.Start(t)
	workers := make(map[string]*bench)
	var ended []<-chan error
	for component, e := range map[string]Engine{"prefill": s.prefill, "backend": s.decode} {
		b := newBench(t)
		b.hub = hub
		config := hub.Config()
		b.config.Runtime, b.config.Tracing, b.config.Component = &config, work, component
		if b.config.Mode = Decode; component == "prefill" {
			b.config.Mode = Prefill
		}
		ended = append(ended, b.run(t, e))
		<-b.ready
		workers[component] = b
	}
	front, frontSpans := recorded()
	router := &PrefillRouter{Prefill: workers["prefill"].remote(t, "prefill"), Decode: workers["backend"].remote(t, "backend")}
	ctx, root := front.StartHTTP(t.Context(), "POST", "/v1/completions")
	chunks, err := router.Generate(ctx, cancel.New(""), request(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range chunks {
		if err != nil {
			t.Error(err)
		}
	}
	root.End()
	for component, b := range workers {
		b.signals <- syscall.SIGTERM
		_ = component
	}
	for _, done := range ended {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	all := workSpans.GetSpans()
	http := frontSpans.GetSpans()[0].SpanContext
	var prefill, decode tracetest.SpanStub
	parents := make(map[string]string)
	for _, s := range all {
		parents[s.SpanContext.SpanID().String()] = s.Parent.SpanID().String()
		if s.SpanContext.TraceID() != http.TraceID() {
			t.Errorf("%s is in another trace", s.Name)
		}
		switch attributes(s)["disagg_role"] {
		case "prefill":
			prefill = s
		case "decode":
			decode = s
		}
	}
	for _, s := range all {
		id := s.SpanContext.SpanID().String()
		for range 3 {
			if p, ok := parents[id]; ok {
				id = p
			}
		}
		if id != http.SpanID().String() {
			t.Errorf("%s does not hang on the frontend's span", s.Name)
		}
	}
	if len(all) != 4 || len(decode.Links) != 1 || decode.Links[0].SpanContext.SpanID() != prefill.SpanContext.SpanID() {
		t.Errorf("%d spans, decode's links %+v, want four and one to prefill", len(all), decode.Links)
	}
}

// Disabled tracing has no cost per chunk: a longer answer allocates no more memory.
func TestNothingPerChunk(t *testing.T) {
	allocs := func(n uint32) float64 {
		chunk, last := token(1), finish(FinishLength)
		a := NewAdapter(&fake{generate: func(_ context.Context, _ *Request, _ GenContext, yield func(*Chunk, error) bool) {
			for range n {
				if !yield(chunk, nil) {
					return
				}
			}
			yield(last, nil)
		}}, AdapterOptions{})
		rq := request()
		return testing.AllocsPerRun(50, func() {
			chunks, err := a.Generate(context.Background(), cancel.New("r"), rq, nil)
			if err != nil {
				t.Fatal(err)
			}
			for range chunks {
			}
		})
	}
	short, long := allocs(10), allocs(2000)
	if long > short*1.02+1 {
		t.Errorf("%v allocations for 2000 chunks, %v for 10, want as many", long, short)
	}
}

func BenchmarkAdapter(b *testing.B) {
	for _, traced := range []bool{false, true} {
		name := "export=off"
		if traced {
			name = "export=on"
		}
		b.Run(name, func(b *testing.B) {
			o := AdapterOptions{}
			if traced {
				o.Tracing = telemetry.New(sdktrace.NewSimpleSpanProcessor(tracetest.NewNoopExporter()), "bench")
			}
			chunk, last := token(1), finish(FinishLength)
			a := released(&fake{generate: func(_ context.Context, _ *Request, _ GenContext, yield func(*Chunk, error) bool) {
				for range 64 {
					if !yield(chunk, nil) {
						return
					}
				}
				yield(last, nil)
			}}, o)
			rq := request()
			b.ReportAllocs()
			for b.Loop() {
				chunks, err := a.Generate(context.Background(), cancel.New("r"), rq, nil)
				if err != nil {
					b.Fatal(err)
				}
				for range chunks {
				}
			}
		})
	}
}
