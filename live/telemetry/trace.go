// Package telemetry wraps OpenTelemetry and Prometheus. The package defines the spans and metrics of workers, their
// clients and frontends, with the names that Dynamo, vLLM and SGLang use.
//
// Nothing is recorded by default, and no state is global. A worker makes a Tracing and a Metrics at its start.
//
// Read trace.go, then metrics.go.
package telemetry

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/replay-llm/replay/internal/credential"
)

// scope is the instrumentation scope of all spans.
const scope = "github.com/replay-llm/replay"

// Tracing makes spans. Without an exporter nothing is recorded, but spans still have ids. Log lines contain the ids,
// and calls pass them on.
type Tracing struct {
	provider  *sdktrace.TracerProvider
	tracer    trace.Tracer
	recording bool
}

// Open returns tracing according to the environment, which getenv reads. Spans are exported only if
// OTEL_EXPORT_ENABLED is set. Spans are sent by OTLP/gRPC to OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, default
// 127.0.0.1:4317. The service name is OTEL_SERVICE_NAME, default dynamo.
func Open(ctx context.Context, getenv func(string) string) (*Tracing, error) {
	if !isTruthy(getenv("OTEL_EXPORT_ENABLED")) {
		return New(nil, ""), nil
	}
	endpoint := getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	switch {
	case endpoint == "":
		endpoint = "http://127.0.0.1:4317" // an address, since DNS may not resolve localhost
	case !strings.Contains(endpoint, "://"):
		endpoint = "http://" + endpoint
	}
	endpoint, _, err := credential.Split(endpoint) // the user is not used
	if err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: %w", err)
	}
	if _, err := url.Parse(endpoint); err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: %w", err)
	}
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(endpoint))
	if err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=%s: %w", endpoint, err)
	}
	service := getenv("OTEL_SERVICE_NAME")
	if service == "" {
		service = "dynamo"
	}
	return New(sdktrace.NewBatchSpanProcessor(exporter), service), nil
}

// New returns tracing that sends its spans to a processor; nil: nothing is sent.
func New(to sdktrace.SpanProcessor, service string) *Tracing {
	options := []sdktrace.TracerProviderOption{
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", service))),
	}
	if to == nil {
		options = append(options, sdktrace.WithSampler(sdktrace.NeverSample()))
	} else {
		options = append(options, sdktrace.WithSpanProcessor(to), sdktrace.WithSampler(sdktrace.AlwaysSample()))
	}
	provider := sdktrace.NewTracerProvider(options...)
	return &Tracing{provider, provider.Tracer(scope), to != nil}
}

// isTruthy reports whether the value of an environment variable means yes.
func isTruthy(text string) bool {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "1", "true", "yes", "on":
		return true
	}
	return false
}

// Close sends the remaining spans.
func (t *Tracing) Close(ctx context.Context) error {
	return t.provider.Shutdown(ctx)
}

// Span is a span. The caller must end each Span.
type Span struct{ trace.Span }

// Fail marks the span as failed.
func (s Span) Fail(err error) {
	s.SetStatus(codes.Error, err.Error())
}

// Follow returns the answer and its error. Follow ends the span at the end of the answer, and marks it as failed
// after an error.
func Follow[T any](s Span, answer iter.Seq2[T, error], err error) (iter.Seq2[T, error], error) {
	if err != nil {
		s.Fail(err)
		s.End()
		return nil, err
	}
	return func(yield func(T, error) bool) {
		defer s.End()
		for one, err := range answer {
			if err != nil {
				s.Fail(err)
			}
			if !yield(one, err) {
				return
			}
		}
	}, nil
}

// startSpan starts a span.
func (t *Tracing) startSpan(ctx context.Context, name string, kind trace.SpanKind, attributes ...attribute.KeyValue) (context.Context, Span) {
	options := []trace.SpanStartOption{trace.WithSpanKind(kind)}
	if t.recording {
		options = append(options, trace.WithAttributes(attributes...))
	}
	ctx, s := t.tracer.Start(ctx, name, options...)
	return ctx, Span{s}
}

// StartHTTP starts the span http-request of a frontend.
func (t *Tracing) StartHTTP(ctx context.Context, method, path string) (context.Context, Span) {
	return t.startSpan(ctx, "http-request", trace.SpanKindServer, attribute.String("method", method), attribute.String("uri", path))
}

// StartRoute starts the span router.route_request for the choice of a worker.
func (t *Tracing) StartRoute(ctx context.Context, requestID string, workerID uint64, routerMode string) (context.Context, Span) {
	return t.startSpan(ctx, "router.route_request", trace.SpanKindClient,
		attribute.String("request_id", requestID),
		attribute.String("worker_id", strconv.FormatUint(workerID, 10)),
		attribute.String("router_mode", routerMode))
}

// StartPayload starts the span handle_payload of a worker. The parent of the span is the span in the headers of the
// request.
func (t *Tracing) StartPayload(ctx context.Context, worker Name, requestID string, headers map[string]string) (context.Context, Span) {
	ctx = Extract(ctx, headers)
	attributes := []attribute.KeyValue{
		attribute.String("component", worker.Component),
		attribute.String("endpoint", worker.Endpoint),
		attribute.String("namespace", worker.Namespace),
		attribute.String("instance_id", strconv.FormatUint(worker.WorkerID, 10)),
		attribute.String("request_id", requestID),
	}
	for _, h := range []struct{ key, header string }{{"x_request_id", "x-request-id"}, {"tracestate", "tracestate"}} {
		if v := headers[h.header]; v != "" {
			attributes = append(attributes, attribute.String(h.key, v))
		}
	}
	return t.startSpan(ctx, "handle_payload", trace.SpanKindServer, attributes...)
}

// StartSpan starts a span of an engine as a child of the span in ctx. The name is arbitrary. If ctx has no span,
// nothing is recorded.
func StartSpan(ctx context.Context, name string) (context.Context, Span) {
	tracer := trace.SpanFromContext(ctx).TracerProvider().Tracer(scope)
	ctx, s := tracer.Start(ctx, name)
	return ctx, Span{s}
}

// Inject writes the span of ctx to the headers traceparent and tracestate of a request.
func Inject(ctx context.Context, headers map[string]string) {
	propagation.TraceContext{}.Inject(ctx, propagation.MapCarrier(headers))
}

// Extract returns ctx with the span in the headers, if there is one.
func Extract(ctx context.Context, headers map[string]string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier(headers))
}

// LogHandler returns h with the attributes trace_id and span_id. The attributes identify the span in the context of a
// line.
func LogHandler(h slog.Handler) slog.Handler { return logHandler{h} }

type logHandler struct{ slog.Handler }

func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if c := trace.SpanContextFromContext(ctx); c.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", c.TraceID().String()), slog.String("span_id", c.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{h.Handler.WithGroup(name)}
}

// Start contains the facts of a request that are known when an engine gets it.
type Start struct {
	Model       string
	InputTokens int
	Role        string // agg, prefill or decode
	// MigrationTraceID and MigrationSpanID identify the span of the previous stage, in hex; "": there is none.
	MigrationTraceID, MigrationSpanID string
}

// Generation is the span engine.generate of one request. Generation is not safe for concurrent use. Without an
// exporter a Generation records nothing.
type Generation struct {
	span      trace.Span
	recording bool

	begun    time.Time // when Generate returned
	last     time.Time // time of the last chunk with tokens
	chunks   int       // chunks with tokens
	tokens   int
	gaps     []float64 // times between chunks with tokens, in ms
	firstGap float64   // time to first token, in ms
	ended    bool
}

// StartGeneration starts the span engine.generate.
func (t *Tracing) StartGeneration(ctx context.Context, s Start) (context.Context, *Generation) {
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindInternal)}
	if t.recording {
		attributes := []attribute.KeyValue{
			attribute.String("model", s.Model),
			attribute.Int("input_tokens", s.InputTokens),
			attribute.String("disagg_role", s.Role),
		}
		if link, ok := remoteSpan(s.MigrationTraceID, s.MigrationSpanID); ok {
			attributes = append(attributes,
				attribute.String("migration_trace_id", s.MigrationTraceID),
				attribute.String("migration_span_id", s.MigrationSpanID))
			options = append(options, trace.WithLinks(trace.Link{SpanContext: link}))
		}
		options = append(options, trace.WithAttributes(attributes...))
	}
	ctx, span := t.tracer.Start(ctx, "engine.generate", options...)
	return ctx, &Generation{span: span, recording: t.recording}
}

// remoteSpan returns a remote, sampled span with the given ids.
func remoteSpan(traceID, spanID string) (trace.SpanContext, bool) {
	id, err := trace.TraceIDFromHex(traceID)
	if err != nil {
		return trace.SpanContext{}, false
	}
	span, err := trace.SpanIDFromHex(spanID)
	if err != nil {
		return trace.SpanContext{}, false
	}
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: id, SpanID: span, TraceFlags: trace.FlagsSampled, Remote: true,
	}), true
}

// Link returns the ids of the span in hex for the next stage. The ids are "" if the span is not recorded.
func (g *Generation) Link() (traceID, spanID string) {
	if !g.recording {
		return "", ""
	}
	c := g.span.SpanContext()
	return c.TraceID().String(), c.SpanID().String()
}

// Recording reports whether the span is exported.
func (g *Generation) Recording() bool { return g.recording }

// Begun records that Generate has returned.
func (g *Generation) Begun() {
	if g.recording {
		g.begun = time.Now()
	}
}

// Tokens records a chunk with n tokens. Tokens reports whether this is the first chunk with tokens.
func (g *Generation) Tokens(n int) bool {
	if !g.recording || n == 0 {
		return false
	}
	now := time.Now()
	if g.chunks == 0 {
		g.firstGap = toMilliseconds(now.Sub(g.begun))
		g.span.SetAttributes(attribute.Float64("ttft_ms", g.firstGap))
	} else {
		g.gaps = append(g.gaps, toMilliseconds(now.Sub(g.last)))
	}
	g.last = now
	g.chunks++
	g.tokens += n
	return g.chunks == 1
}

func toMilliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Finished ends the span at the terminal chunk. reason is the finish reason. cancelled reports that the request was
// stopped.
func (g *Generation) Finished(reason string, cancelled, failed bool) {
	if failed {
		g.span.SetStatus(codes.Error, reason)
	}
	g.endSpan(attribute.String("finish_reason", reason), attribute.Bool("cancelled", cancelled))
}

// Failed ends the span with an error. kind is the name of the error type.
func (g *Generation) Failed(kind string, err error, cancelled bool) {
	g.span.SetStatus(codes.Error, err.Error())
	g.endSpan(attribute.String("error_kind", kind), attribute.Bool("cancelled", cancelled),
		attribute.String("finish_reason", "Error("+err.Error()+")"))
}

// SetupFailed ends the span of a request that the engine did not start. The error_kind of the span is always
// setup_failed, and kind is its error_type.
func (g *Generation) SetupFailed(kind string, err error) {
	g.span.SetStatus(codes.Error, err.Error())
	g.endSpan(attribute.String("error_kind", "setup_failed"), attribute.String("error_type", kind))
}

// Dropped ends the span of a request after its consumer left.
func (g *Generation) Dropped() {
	g.span.SetStatus(codes.Error, "dropped")
	g.endSpan(attribute.String("finish_reason", "Dropped"), attribute.Bool("cancelled", true))
}

// endSpan adds the counts to the span and ends it. Later calls do nothing.
func (g *Generation) endSpan(attributes ...attribute.KeyValue) {
	if g.ended {
		return
	}
	g.ended = true
	if g.recording {
		attributes = append(attributes, attribute.Int("output_tokens", g.tokens))
		g.span.SetAttributes(append(attributes, g.gapAttributes()...)...)
	}
	g.span.End()
}

// gapAttributes returns the statistics of the times between chunks with tokens. gapAttributes returns nil for fewer
// than two chunks with tokens.
func (g *Generation) gapAttributes() []attribute.KeyValue {
	if len(g.gaps) == 0 {
		return nil
	}
	sum := 0.0
	for _, gap := range g.gaps {
		sum += gap
	}
	slices.Sort(g.gaps)
	return []attribute.KeyValue{
		attribute.Float64("avg_itl_ms", sum/float64(len(g.gaps))),
		attribute.Float64("itl_p50_ms", nearestRank(g.gaps, 0.5)),
		attribute.Float64("itl_p99_ms", nearestRank(g.gaps, 0.99)),
		attribute.Float64("itl_max_ms", g.gaps[len(g.gaps)-1]),
	}
}

// nearestRank returns the value at index round((n-1)·q) of sorted values.
func nearestRank(sorted []float64, q float64) float64 {
	return sorted[int(math.Round(float64(len(sorted)-1)*q))]
}
