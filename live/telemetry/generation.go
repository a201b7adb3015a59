package telemetry

import (
	"context"
	"math"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Start is what is known of a request when an engine gets it.
type Start struct {
	Model       string
	InputTokens int
	Role        string // agg, prefill or decode
	// MigrationTraceID and MigrationSpanID point at the span of the stage before,
	// in hex; empty without one.
	MigrationTraceID, MigrationSpanID string
}

// Generation is the span engine.generate of one request. It is used by one
// goroutine at a time. Without an exporter it records nothing.
type Generation struct {
	span      trace.Span
	recording bool

	begun    time.Time // Generate returned
	last     time.Time // the last chunk with tokens
	chunks   int       // with tokens
	tokens   int
	gaps     []float64 // between chunks with tokens, ms
	firstGap float64   // ttft, ms
	ended    bool
}

// StartGeneration begins the span.
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

// remoteSpan returns the span with these ids, somewhere else, sampled.
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

// Link returns the ids of the span in hex, for the stage after; empty if nobody
// records it.
func (g *Generation) Link() (traceID, spanID string) {
	if !g.recording {
		return "", ""
	}
	c := g.span.SpanContext()
	return c.TraceID().String(), c.SpanID().String()
}

// Recording reports whether the span goes anywhere.
func (g *Generation) Recording() bool { return g.recording }

// Begun notes that Generate has returned.
func (g *Generation) Begun() {
	if g.recording {
		g.begun = time.Now()
	}
}

// Tokens notes a chunk with n tokens. It reports whether it is the first that has
// any.
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

// Finished ends the span with the terminal chunk. reason is its name; cancelled
// tells whether somebody stopped the request.
func (g *Generation) Finished(reason string, cancelled, failed bool) {
	if failed {
		g.span.SetStatus(codes.Error, reason)
	}
	g.endSpan(attribute.String("finish_reason", reason), attribute.Bool("cancelled", cancelled))
}

// Failed ends the span with an error: kind is its type's name.
func (g *Generation) Failed(kind string, err error, cancelled bool) {
	g.span.SetStatus(codes.Error, err.Error())
	g.endSpan(attribute.String("error_kind", kind), attribute.Bool("cancelled", cancelled),
		attribute.String("finish_reason", "Error("+err.Error()+")"))
}

// SetupFailed ends the span of a request that the engine did not begin: its kind
// of error is setup_failed, whatever type kind names.
func (g *Generation) SetupFailed(kind string, err error) {
	g.span.SetStatus(codes.Error, err.Error())
	g.endSpan(attribute.String("error_kind", "setup_failed"), attribute.String("error_type", kind))
}

// Dropped ends the span of a request whose consumer walked away.
func (g *Generation) Dropped() {
	g.span.SetStatus(codes.Error, "dropped")
	g.endSpan(attribute.String("finish_reason", "Dropped"), attribute.Bool("cancelled", true))
}

// endSpan adds what was counted and ends the span, once.
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

// gapAttributes describe the time between chunks, if there were two with tokens.
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
