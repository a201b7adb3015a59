// Package telemetry is the one door to OpenTelemetry and Prometheus: the spans
// and the metrics of workers, their callers and frontends, with the names they
// have elsewhere.
//
// Nothing here happens before it is asked for, and no state is shared between
// those who ask: a Tracing and a Metrics are values that a worker makes at its
// start.
//
// Read trace.go, generation.go, then metrics.go.
package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// scope is the instrumentation scope of all spans.
const scope = "github.com/replay-llm/replay"

// Tracing makes spans. Without an exporter they have ids, which log lines carry
// and callees get, and nothing is recorded.
type Tracing struct {
	provider  *sdktrace.TracerProvider
	tracer    trace.Tracer
	recording bool
}

// Open returns tracing as the environment wants it, which getenv tells: nothing
// leaves the process unless OTEL_EXPORT_ENABLED is set. Then spans go by
// OTLP/gRPC to OTEL_EXPORTER_OTLP_TRACES_ENDPOINT (this host, port 4317, if
// unset) under the service OTEL_SERVICE_NAME (dynamo, if unset).
func Open(ctx context.Context, getenv func(string) string) (*Tracing, error) {
	if !isTruthy(getenv("OTEL_EXPORT_ENABLED")) {
		return New(nil, ""), nil
	}
	endpoint := getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	switch {
	case endpoint == "":
		endpoint = "http://localhost:4317"
	case !strings.Contains(endpoint, "://"):
		endpoint = "http://" + endpoint
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

// New returns tracing whose spans go to a processor, or nowhere if that is nil.
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

// isTruthy reports whether a variable of the environment says yes.
func isTruthy(text string) bool {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "1", "true", "yes", "on":
		return true
	}
	return false
}

// Close sends what was not sent yet.
func (t *Tracing) Close(ctx context.Context) error {
	return t.provider.Shutdown(ctx)
}

// Span is a stretch of work with a name. End it.
type Span struct{ trace.Span }

// Fail marks the span as failed.
func (s Span) Fail(err error) {
	s.SetStatus(codes.Error, err.Error())
}

// startSpan begins a span of a stage.
func (t *Tracing) startSpan(ctx context.Context, name string, kind trace.SpanKind, attributes ...attribute.KeyValue) (context.Context, Span) {
	options := []trace.SpanStartOption{trace.WithSpanKind(kind)}
	if t.recording {
		options = append(options, trace.WithAttributes(attributes...))
	}
	ctx, s := t.tracer.Start(ctx, name, options...)
	return ctx, Span{s}
}

// StartHTTP begins the span http-request of a frontend.
func (t *Tracing) StartHTTP(ctx context.Context, method, path string) (context.Context, Span) {
	return t.startSpan(ctx, "http-request", trace.SpanKindServer, attribute.String("method", method), attribute.String("uri", path))
}

// StartRoute begins the span router.route_request, of the choice of a worker for a
// request.
func (t *Tracing) StartRoute(ctx context.Context, requestID string, workerID uint64, routerMode string) (context.Context, Span) {
	return t.startSpan(ctx, "router.route_request", trace.SpanKindClient,
		attribute.String("request_id", requestID),
		attribute.String("worker_id", strconv.FormatUint(workerID, 10)),
		attribute.String("router_mode", routerMode))
}

// StartPayload begins the span handle_payload of a worker, as a child of the span
// that the headers of the request tell of.
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

// StartSpan begins a span of an engine's own, with any name, below the span that
// ctx is in and by the same tracing. Without one it does nothing.
func StartSpan(ctx context.Context, name string) (context.Context, Span) {
	tracer := trace.SpanFromContext(ctx).TracerProvider().Tracer(scope)
	ctx, s := tracer.Start(ctx, name)
	return ctx, Span{s}
}

// Inject writes the span that ctx is in into the headers of a request: traceparent
// and tracestate.
func Inject(ctx context.Context, headers map[string]string) {
	propagation.TraceContext{}.Inject(ctx, propagation.MapCarrier(headers))
}

// Extract returns ctx in the span that headers tell of, if they do.
func Extract(ctx context.Context, headers map[string]string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier(headers))
}

// LogHandler returns h, with trace_id and span_id of the span that a line's context is
// in.
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
