package formats

import (
	"slices"

	"github.com/replay-llm/replay/loadgen"
)

func isOTLP(o *object) bool { return o.has("resourceSpans", "resource_spans") }

// otlpRows reads spans of OpenTelemetry in OTLP's JSON, as the collector's file exporter
// writes them: requests are those that say how many tokens they used.
type otlpRows struct {
	gathered
	spans map[string]*otlpSpan // by trace and span
	order []*otlpSpan          // those of requests
}

// otlpSpan is a span as far as it matters.
type otlpSpan struct {
	parent string // its key; "": none
	outer  bool   // a span within it is a request, too
	record Record
}

func openOTLP(s *Stream) (rows, error) {
	x := &otlpRows{gathered: gathered{s: s}, spans: map[string]*otlpSpan{}}
	s.Private, s.Measured = true, true
	s.Chained = s.o.Sessions != "flat"
	if err := x.eachObject(x.readBatch); err != nil || len(x.bad) > 0 && s.o.stops() {
		return x, err
	}
	x.dropOuter()
	if len(x.order) == 0 {
		return nil, &loadgen.SyntaxError{Name: s.Name, Msg: "no span says how many tokens it used, want gen_ai.usage.input_tokens and gen_ai.usage.output_tokens among the attributes of some"}
	}
	slices.SortStableFunc(x.order, func(a, b *otlpSpan) int { return a.record.when.compare(b.record.when) })
	ends := make(lastEnds)
	for _, span := range x.order {
		x.linkAfter(&span.record, ends)
	}
	return x, nil
}

// readBatch reads what was exported together.
func (x *otlpRows) readBatch(f *fields) error {
	for _, resource := range f.elements(firstOf(f, "resourceSpans", "resource_spans")) {
		for _, scope := range resource.elements(firstOf(resource, "scopeSpans", "scope_spans", "instrumentationLibrarySpans")) {
			for _, span := range scope.elements("spans") {
				if x.readSpan(span); f.err != nil {
					return f.err
				}
			}
		}
	}
	return f.err
}

// firstOf returns the first of several keys that an object has, or the first of all.
func firstOf(f *fields, keys ...string) string {
	for _, key := range keys {
		if f.has(key) {
			return key
		}
	}
	return keys[0]
}

// readSpan keeps a span, and what it says of a request. Those that failed are left out.
func (x *otlpRows) readSpan(f *fields) {
	trace := string(f.readText(firstOf(f, "traceId", "trace_id")))
	span := &otlpSpan{record: Record{Line: f.line}}
	if parent := f.readText(firstOf(f, "parentSpanId", "parent_span_id")); len(parent) > 0 {
		span.parent = trace + "/" + string(parent)
	}
	x.spans[trace+"/"+string(f.readText(firstOf(f, "spanId", "span_id")))] = span
	a := f.readAttributes()
	for _, key := range []string{"gen_ai.conversation.id", "session.id"} {
		if id := a[key]; len(id) > 0 && span.record.Session == nil {
			span.record.Session, span.record.Group = slices.Clone(id), slices.Clone(id)
		}
	}
	in, counted := a.readCount(f, "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.usage.prompt_tokens", "llm.token_count.prompt")
	if !counted {
		return
	}
	out, answered := a.readCount(f, "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.usage.completion_tokens", "llm.token_count.completion")
	if status := f.openSub("status").readName("code"); !answered || string(status) == "2" || string(status) == "STATUS_CODE_ERROR" {
		x.s.dropped++
		return
	}
	span.record.Input, span.record.Output = in, out
	span.record.arrives(f.needNano(firstOf(f, "startTimeUnixNano", "start_time_unix_nano")))
	span.record.ended = f.needNano(firstOf(f, "endTimeUnixNano", "end_time_unix_nano"))
	if f.err == nil {
		x.order = append(x.order, span)
	}
}

// dropOuter leaves out spans that have a request within them: a call of a client and what the
// server says of it are one request, an agent's span is the sum of its calls. Of what
// conversation it is the outer one may tell.
func (x *otlpRows) dropOuter() {
	for _, span := range x.order {
		up := x.spans[span.parent]
		for n := 0; up != nil && n < maxDepth; n++ {
			if up.outer = true; span.record.Session == nil {
				span.record.Session, span.record.Group = up.record.Session, up.record.Group
			}
			up = x.spans[up.parent]
		}
	}
	x.order = slices.DeleteFunc(x.order, func(span *otlpSpan) bool { return span.outer })
}

// attributes are those of a span, as text.
type attributes map[string][]byte

// readAttributes reads the attributes of a span whose values are no lists or objects.
func (f *fields) readAttributes() attributes {
	all := attributes{}
	for _, a := range f.elements("attributes") {
		value := a.openSub("value")
		for _, kind := range []string{"intValue", "int_value", "stringValue", "string_value", "doubleValue", "double_value"} {
			if v := value.find(kind); v != nil && (v[0] == '"' || isNumeric(v)) {
				if v[0] == '"' {
					v = unquoteString(v)
				}
				all[string(a.readText("key"))] = v
			}
		}
	}
	return all
}

// readCount reads the first of several attributes that is there, a number of tokens.
func (a attributes) readCount(f *fields, keys ...string) (n int, ok bool) {
	for _, key := range keys {
		v, given := a[key]
		if !given {
			continue
		}
		u, whole := wholeNumber(v)
		if !whole || u > maxTokens {
			f.mismatch(key, v, wantCount)
			return 0, false
		}
		return int(u), true
	}
	return 0, false
}

// needNano is an instant in ns since 1970, which OTLP has as text.
func (f *fields) needNano(key string) stamp {
	v := f.readName(key)
	s, ok := decimalStamp(v, 0)
	if !ok || !isNumeric(v) {
		f.missing(key, "ns since 1970")
	}
	return s
}
