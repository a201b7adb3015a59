package telemetry

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
)

// memory returns tracing that keeps its spans in memory.
func memory() (*Tracing, *tracetest.InMemoryExporter) {
	e := tracetest.NewInMemoryExporter()
	return New(sdktrace.NewSimpleSpanProcessor(e), "test"), e
}

func values(s tracetest.SpanStub) map[string]any {
	all := make(map[string]any)
	for _, a := range s.Attributes {
		all[string(a.Key)] = a.Value.AsInterface()
	}
	return all
}

// The span of a generation has the attributes of its finish reason.
func TestGenerationAttributes(t *testing.T) {
	const traceID, spanID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	start := Start{Model: "m", InputTokens: 3, Role: "decode", MigrationTraceID: traceID, MigrationSpanID: spanID}
	tests := []struct {
		name string
		do   func(*Generation)
		want map[string]any
		has  []string
		code codes.Code
	}{
		{"finished", func(g *Generation) {
			g.Begun()
			if g.Tokens(0) || !g.Tokens(2) || g.Tokens(1) || g.Tokens(1) {
				t.Error("the wrong chunk is the first with tokens")
			}
			g.Finished("Length", false, false)
			g.Dropped() // does nothing after Finished
		}, map[string]any{"output_tokens": int64(4), "finish_reason": "Length", "cancelled": false},
			[]string{"ttft_ms", "avg_itl_ms", "itl_p50_ms", "itl_p99_ms", "itl_max_ms"}, codes.Unset},
		{"cancelled", func(g *Generation) { g.Finished("Cancelled", true, false) },
			map[string]any{"output_tokens": int64(0), "finish_reason": "Cancelled", "cancelled": true}, nil, codes.Unset},
		{"finished with an error", func(g *Generation) { g.Finished("Error(x)", false, true) },
			map[string]any{"finish_reason": "Error(x)"}, nil, codes.Error},
		{"failed", func(g *Generation) { g.Failed("Backend(InvalidArgument)", errors.New("x"), false) },
			map[string]any{"error_kind": "Backend(InvalidArgument)", "cancelled": false}, nil, codes.Error},
		{"setup failed", func(g *Generation) { g.SetupFailed("Backend(Unknown)", errors.New("x")) },
			map[string]any{"error_kind": "setup_failed"}, nil, codes.Error},
		{"dropped", func(g *Generation) { g.Dropped() }, map[string]any{"finish_reason": "Dropped", "cancelled": true}, nil, codes.Error},
	}
	for _, test := range tests {
		tracing, spans := memory()
		_, g := tracing.StartGeneration(t.Context(), start)
		trace, span := g.Link()
		test.do(g)
		all := spans.GetSpans()
		if len(all) != 1 || all[0].Name != "engine.generate" {
			t.Fatalf("%s: %d spans", test.name, len(all))
		}
		s := all[0]
		got := values(s)
		for k, v := range map[string]any{"model": "m", "input_tokens": int64(3), "disagg_role": "decode", "migration_trace_id": traceID, "migration_span_id": spanID} {
			test.want[k] = v
		}
		for k, v := range test.want {
			if got[k] != v {
				t.Errorf("%s: %s is %v, want %v", test.name, k, got[k], v)
			}
		}
		for _, k := range test.has {
			if v, ok := got[k].(float64); !ok || v < 0 {
				t.Errorf("%s: %s is %v, want a number", test.name, k, got[k])
			}
		}
		if _, ok := got["avg_itl_ms"]; ok && test.has == nil {
			t.Errorf("%s: has gaps without two chunks", test.name)
		}
		if s.Status.Code != test.code {
			t.Errorf("%s: status %v, want %v", test.name, s.Status.Code, test.code)
		}
		if s.SpanContext.TraceID().String() != trace || s.SpanContext.SpanID().String() != span {
			t.Errorf("%s: Link is not the span", test.name)
		}
		if len(s.Links) != 1 || s.Links[0].SpanContext.TraceID().String() != traceID || s.Links[0].SpanContext.SpanID().String() != spanID ||
			!s.Links[0].SpanContext.IsRemote() || !s.Links[0].SpanContext.IsSampled() {
			t.Errorf("%s: links %+v", test.name, s.Links)
		}
	}
	// An id that is not valid adds no link.
	tracing, spans := memory()
	_, g := tracing.StartGeneration(t.Context(), Start{MigrationTraceID: "x", MigrationSpanID: spanID})
	g.Dropped()
	if s := spans.GetSpans()[0]; len(s.Links) != 0 {
		t.Errorf("links %+v out of nonsense", s.Links)
	}
}

func TestNearestRank(t *testing.T) {
	values := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for q, want := range map[float64]float64{0: 1, 0.5: 6, 0.99: 10, 1: 10} {
		if got := nearestRank(values, q); got != want {
			t.Errorf("%v of ten is %v, want %v", q, got, want)
		}
	}
	if got := nearestRank([]float64{7}, 0.99); got != 7 {
		t.Errorf("of one: %v", got)
	}
}

// The spans of all stages form one tree, connected by the headers of a request.
func TestTree(t *testing.T) {
	front, frontSpans := memory()
	work, workSpans := memory()
	ctx, http := front.StartHTTP(t.Context(), "POST", "/v1/completions")
	ctx, route := front.StartRoute(ctx, "r", 7, "kv")
	headers := map[string]string{"x-request-id": "u", "tracestate": "k=v"}
	Inject(ctx, headers)
	if !regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-01$`).MatchString(headers["traceparent"]) {
		t.Errorf("traceparent %q", headers["traceparent"])
	}
	headers["tracestate"] = "k=v"
	there, payload := work.StartPayload(context.Background(), Name{Namespace: "n", Component: "c", Endpoint: "e", WorkerID: 7}, "r", headers)
	there, generation := work.StartGeneration(there, Start{Model: "m", Role: "agg"})
	_, own := StartSpan(there, "prefill.pass")
	own.End()
	generation.Finished("Stop", false, false)
	payload.End()
	route.End()
	http.Fail(errors.New("x"))
	http.End()

	all := append(frontSpans.GetSpans(), workSpans.GetSpans()...)
	byName := make(map[string]tracetest.SpanStub)
	for _, s := range all {
		byName[s.Name] = s
	}
	chain := []string{"http-request", "router.route_request", "handle_payload", "engine.generate", "prefill.pass"}
	for i := 1; i < len(chain); i++ {
		child, parent := byName[chain[i]], byName[chain[i-1]]
		if child.Parent.SpanID() != parent.SpanContext.SpanID() || child.SpanContext.TraceID() != parent.SpanContext.TraceID() {
			t.Errorf("%s is not a child of %s", chain[i], chain[i-1])
		}
	}
	want := map[string]any{"namespace": "n", "component": "c", "endpoint": "e", "instance_id": "7", "request_id": "r", "x_request_id": "u", "tracestate": "k=v"}
	for k, v := range want {
		if got := values(byName["handle_payload"])[k]; got != v {
			t.Errorf("handle_payload: %s is %v, want %v", k, got, v)
		}
	}
	for k, v := range map[string]any{"request_id": "r", "worker_id": "7", "router_mode": "kv"} {
		if got := values(byName["router.route_request"])[k]; got != v {
			t.Errorf("router.route_request: %s is %v, want %v", k, got, v)
		}
	}
	if byName["http-request"].Status.Code != codes.Error {
		t.Error("a failed request is not marked")
	}
}

// Without an exporter spans have ids for log lines and calls, but record nothing.
func TestOff(t *testing.T) {
	tracing, err := Open(t.Context(), func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	ctx, g := tracing.StartGeneration(t.Context(), Start{Model: "m"})
	if tracing.recording || g.Recording() || g.span.IsRecording() || g.Tokens(3) {
		t.Error("something is recorded")
	}
	if trace, span := g.Link(); trace != "" || span != "" {
		t.Error("there is a link to what nobody records")
	}
	var line bytes.Buffer
	log := slog.New(LogHandler(slog.NewTextHandler(&line, nil))).With("a", 1).WithGroup("g")
	log.InfoContext(ctx, "hello")
	if !regexp.MustCompile(`trace_id=[0-9a-f]{32} g.span_id=[0-9a-f]{16}`).MatchString(line.String()) {
		t.Errorf("the log says %q", line.String())
	}
	headers := make(map[string]string)
	Inject(ctx, headers)
	if headers["traceparent"] == "" {
		t.Error("callees get no ids")
	}
	g.Finished("Stop", false, false)
	if allocs := testing.AllocsPerRun(100, func() { g.Tokens(1) }); allocs != 0 {
		t.Errorf("%v allocations per chunk, want none", allocs)
	}
	if err := tracing.Close(t.Context()); err != nil {
		t.Error(err)
	}
	StartSpan(context.Background(), "alone")
}

func TestTruthy(t *testing.T) {
	for text, want := range map[string]bool{"1": true, "true": true, " Yes ": true, "ON": true, "": false, "0": false, "false": false, "no": false} {
		if isTruthy(text) != want {
			t.Errorf("%q is %v", text, !want)
		}
	}
}

// sink is a collector that receives the exported spans.
type sink struct {
	collector.UnimplementedTraceServiceServer
	mu   sync.Mutex
	seen []string // names in the form service/span
}

func (s *sink) Export(_ context.Context, rq *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range rq.GetResourceSpans() {
		service := ""
		for _, a := range r.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				service = a.GetValue().GetStringValue()
			}
		}
		for _, scope := range r.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				s.seen = append(s.seen, service+"/"+span.GetName())
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// With OTEL_EXPORT_ENABLED, spans reach a collector over OTLP/gRPC before Close returns.
func TestExport(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sink{}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, s)
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	for _, env := range []map[string]string{
		{"OTEL_EXPORT_ENABLED": "1", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": l.Addr().String()},
		{"OTEL_EXPORT_ENABLED": "true", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://" + l.Addr().String(), "OTEL_SERVICE_NAME": "mine"},
	} {
		tracing, err := Open(t.Context(), func(name string) string { return env[name] })
		if err != nil {
			t.Fatal(err)
		}
		if !tracing.recording {
			t.Error("nothing is exported")
		}
		_, g := tracing.StartGeneration(t.Context(), Start{})
		g.Finished("Stop", false, false)
		ctx, release := context.WithTimeout(t.Context(), time.Minute)
		if err := tracing.Close(ctx); err != nil {
			t.Error(err)
		}
		release()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := strings.Join(s.seen, " "); got != "dynamo/engine.generate mine/engine.generate" {
		t.Errorf("exported %q", got)
	}
}

// Attributes for counts are numbers.
func TestNumbers(t *testing.T) {
	tracing, spans := memory()
	_, g := tracing.StartGeneration(t.Context(), Start{InputTokens: 5})
	g.Begun()
	g.Tokens(1)
	g.Finished("Stop", false, false)
	for _, a := range spans.GetSpans()[0].Attributes {
		switch a.Key {
		case "input_tokens", "output_tokens":
			if a.Value.Type() != attribute.INT64 {
				t.Errorf("%s is a %v", a.Key, a.Value.Type())
			}
		case "ttft_ms":
			if a.Value.Type() != attribute.FLOAT64 {
				t.Errorf("%s is a %v", a.Key, a.Value.Type())
			}
		}
	}
}
