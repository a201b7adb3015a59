package entries

import "github.com/replay-llm/replay/loadgen/formats/scan"

// Span is a span of OpenTelemetry in the JSON encoding of OTLP, as written by the file exporter of the collector.
type Span struct {
	*scan.Fields
	ID          string
	Key, Parent string // trace id/span id of the span and of its parent; "" if there is no parent
	attributes  map[string][]byte
}

// HasSpans reports whether an object is a batch of spans.
func HasSpans(o *scan.Object) bool { return o.Has("resourceSpans", "resource_spans") }

// EachSpan calls do with each span of a batch. EachSpan stops at the first error. A span is valid until the next call
// of do.
func EachSpan(f *scan.Fields, do func(*Span)) {
	for _, resource := range f.Elements(firstOf(f, "resourceSpans", "resource_spans")) {
		for _, scope := range resource.Elements(firstOf(resource, "scopeSpans", "scope_spans", "instrumentationLibrarySpans")) {
			for _, span := range scope.Elements("spans") {
				if do(newSpan(span)); f.Err != nil {
					return
				}
			}
		}
	}
}

// firstOf returns the first of keys that exists in the object. firstOf returns keys[0] if the object has none of the
// keys.
func firstOf(f *scan.Fields, keys ...string) string {
	for _, key := range keys {
		if f.Has(key) {
			return key
		}
	}
	return keys[0]
}

func newSpan(f *scan.Fields) *Span {
	trace := string(f.ReadText(firstOf(f, "traceId", "trace_id")))
	s := &Span{Fields: f}
	if parent := f.ReadText(firstOf(f, "parentSpanId", "parent_span_id")); len(parent) > 0 {
		s.Parent = trace + "/" + string(parent)
	}
	s.ID = string(f.ReadText(firstOf(f, "spanId", "span_id")))
	s.Key, s.attributes = trace+"/"+s.ID, readAttributes(f)
	return s
}

// readAttributes returns the attributes of a span with string or number values.
func readAttributes(f *scan.Fields) map[string][]byte {
	all := map[string][]byte{}
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

// Attribute returns the value and the key of the first of keys that exists. Attribute returns nil if the span has
// none of the keys.
func (s *Span) Attribute(keys ...string) (value []byte, key string) {
	for _, key := range keys {
		if v, ok := s.attributes[key]; ok {
			return v, key
		}
	}
	return nil, ""
}

// Failed reports whether the span ended with an error.
func (s *Span) Failed() bool {
	code := string(s.OpenSub("status").ReadName("code"))
	return code == "2" || code == "STATUS_CODE_ERROR"
}

// NeedStart returns the start time of the span. A missing time is an error.
func (s *Span) NeedStart() scan.Stamp {
	return s.needInstant("startTimeUnixNano", "start_time_unix_nano")
}

// NeedEnd returns the end time of the span. A missing time is an error.
func (s *Span) NeedEnd() scan.Stamp { return s.needInstant("endTimeUnixNano", "end_time_unix_nano") }

// needInstant reads a time in ns since 1970. OTLP encodes it as a string.
func (s *Span) needInstant(keys ...string) scan.Stamp {
	key := firstOf(s.Fields, keys...)
	v := s.ReadName(key)
	at, ok := scan.DecimalStamp(v, 0)
	if !ok || !scan.IsNumeric(v) {
		s.Missing(key, "ns since 1970")
	}
	return at
}
