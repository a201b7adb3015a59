package results

import (
	"slices"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// IsOTLP reports whether a record is a batch of spans.
func IsOTLP(o *scan.Object) bool { return o.Has("resourceSpans", "resource_spans") }

// otlpRows reads spans of OpenTelemetry in OTLP's JSON, as the collector's file exporter
// writes them: requests are those that say how many tokens they used.
type otlpRows struct {
	formats.Gathered
	spans map[string]*otlpSpan // by trace and span
	order []*otlpSpan          // those of requests
}

// otlpSpan is a span as far as it matters.
type otlpSpan struct {
	parent string // its key; "": none
	outer  bool   // a span within it is a request, too
	record formats.Record
}

// OpenOTLP reads spans of OpenTelemetry.
func OpenOTLP(s *formats.Stream) (formats.Reader, error) {
	x := &otlpRows{Gathered: formats.Gathered{S: s}, spans: map[string]*otlpSpan{}}
	s.Private, s.Measured = true, true
	s.Chained = s.Options.Sessions != "flat"
	if err := x.EachObject(x.readBatch); err != nil || len(x.Bad) > 0 && s.Options.StopsAtBad() {
		return x, err
	}
	x.dropOuter()
	if len(x.order) == 0 {
		return nil, &loadgen.SyntaxError{Name: s.Name, Msg: "no span says how many tokens it used, want gen_ai.usage.input_tokens and gen_ai.usage.output_tokens among the attributes of some"}
	}
	slices.SortStableFunc(x.order, func(a, b *otlpSpan) int { return a.record.When.Compare(b.record.When) })
	ends := make(formats.LastEnds)
	for _, span := range x.order {
		x.LinkAfter(&span.record, ends)
	}
	return x, nil
}

// readBatch reads what was exported together.
func (x *otlpRows) readBatch(f *scan.Fields) error {
	for _, resource := range f.Elements(firstOf(f, "resourceSpans", "resource_spans")) {
		for _, scope := range resource.Elements(firstOf(resource, "scopeSpans", "scope_spans", "instrumentationLibrarySpans")) {
			for _, span := range scope.Elements("spans") {
				if x.readSpan(span); f.Err != nil {
					return f.Err
				}
			}
		}
	}
	return f.Err
}

// firstOf returns the first of several keys that an object has, or the first of all.
func firstOf(f *scan.Fields, keys ...string) string {
	for _, key := range keys {
		if f.Has(key) {
			return key
		}
	}
	return keys[0]
}

// readSpan keeps a span, and what it says of a request. Those that failed are left out.
func (x *otlpRows) readSpan(f *scan.Fields) {
	trace := string(f.ReadText(firstOf(f, "traceId", "trace_id")))
	span := &otlpSpan{record: formats.Record{Line: f.Line}}
	if parent := f.ReadText(firstOf(f, "parentSpanId", "parent_span_id")); len(parent) > 0 {
		span.parent = trace + "/" + string(parent)
	}
	x.spans[trace+"/"+string(f.ReadText(firstOf(f, "spanId", "span_id")))] = span
	a := readAttributes(f)
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
	if status := f.OpenSub("status").ReadName("code"); !answered || string(status) == "2" || string(status) == "STATUS_CODE_ERROR" {
		x.S.Drop()
		return
	}
	span.record.Input, span.record.Output = in, out
	span.record.Arrives(needNano(f, firstOf(f, "startTimeUnixNano", "start_time_unix_nano")))
	span.record.Ended = needNano(f, firstOf(f, "endTimeUnixNano", "end_time_unix_nano"))
	if f.Err == nil {
		x.order = append(x.order, span)
	}
}

// dropOuter leaves out spans that have a request within them: a call of a client and what the
// server says of it are one request, an agent's span is the sum of its calls. Of what
// conversation it is the outer one may tell.
func (x *otlpRows) dropOuter() {
	for _, span := range x.order {
		up := x.spans[span.parent]
		for n := 0; up != nil && n < scan.MaxDepth; n++ {
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
func readAttributes(f *scan.Fields) attributes {
	all := attributes{}
	for _, a := range f.Elements("attributes") {
		value := a.OpenSub("value")
		for _, kind := range []string{"intValue", "int_value", "stringValue", "string_value", "doubleValue", "double_value"} {
			if v := value.Find(kind); v != nil && (v[0] == '"' || scan.IsNumeric(v)) {
				if v[0] == '"' {
					v = scan.UnquoteString(v)
				}
				all[string(a.ReadText("key"))] = v
			}
		}
	}
	return all
}

// readCount reads the first of several attributes that is there, a number of tokens.
func (a attributes) readCount(f *scan.Fields, keys ...string) (n int, ok bool) {
	for _, key := range keys {
		v, given := a[key]
		if !given {
			continue
		}
		u, whole := scan.WholeNumber(v)
		if !whole || u > scan.MaxTokens {
			f.Mismatch(key, v, scan.WantCount)
			return 0, false
		}
		return int(u), true
	}
	return 0, false
}

// needNano is an instant in ns since 1970, which OTLP has as text.
func needNano(f *scan.Fields, key string) scan.Stamp {
	v := f.ReadName(key)
	s, ok := scan.DecimalStamp(v, 0)
	if !ok || !scan.IsNumeric(v) {
		f.Missing(key, "ns since 1970")
	}
	return s
}
