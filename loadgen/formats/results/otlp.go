package results

import (
	"slices"

	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/entries"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// otlpRows reads OpenTelemetry spans. Spans with token counts are requests.
type otlpRows struct {
	formats.Gathered
	spans map[string]*otlpSpan // by trace id/span id
	order []*otlpSpan          // spans that are requests
}

// otlpSpan is a span with its request.
type otlpSpan struct {
	parent string // key of the parent span; "" if there is none
	outer  bool   // a descendant is also a request
	record formats.Record
}

// OpenOTLP opens a file of OpenTelemetry spans.
func OpenOTLP(s *formats.Stream) (formats.Reader, error) {
	x := &otlpRows{Gathered: formats.Gathered{S: s}, spans: map[string]*otlpSpan{}}
	s.Private, s.Measured = true, true
	s.Chained = s.Options.Sessions != "flat"
	err := x.EachObject(func(f *scan.Fields) error {
		entries.EachSpan(f, x.readSpan)
		return nil
	})
	if err != nil || len(x.Bad) > 0 && s.Options.StopsAtBad() {
		return x, err
	}
	x.dropOuter()
	if len(x.order) == 0 {
		return nil, &loadgen.SyntaxError{Name: s.Name, Msg: "no span has its numbers of tokens, expected gen_ai.usage.input_tokens and gen_ai.usage.output_tokens among the attributes of some"}
	}
	stable.Sort(x.order, func(a, b *otlpSpan) int { return a.record.When.Compare(b.record.When) })
	ends := make(formats.LastEnds)
	for _, span := range x.order {
		x.LinkAfter(&span.record, ends)
	}
	return x, nil
}

// readSpan stores a span and its request, if it is one. Failed requests are dropped.
func (x *otlpRows) readSpan(s *entries.Span) {
	span := &otlpSpan{parent: s.Parent, record: formats.Record{Line: s.Line}}
	x.spans[s.Key] = span
	for _, key := range []string{"gen_ai.conversation.id", "session.id"} {
		if id, _ := s.Attribute(key); len(id) > 0 && span.record.Session == nil {
			span.record.Session, span.record.Group = slices.Clone(id), slices.Clone(id)
		}
	}
	in, counted := readCount(s, "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.usage.prompt_tokens", "llm.token_count.prompt")
	if !counted {
		return
	}
	out, answered := readCount(s, "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.usage.completion_tokens", "llm.token_count.completion")
	if s.Failed() || !answered {
		x.S.Drop()
		return
	}
	span.record.Input, span.record.Output = in, out
	span.record.Arrives(s.NeedStart())
	span.record.Ended = s.NeedEnd()
	if s.Err == nil {
		x.order = append(x.order, span)
	}
}

// readCount reads a number of tokens from the first of keys that exists.
func readCount(s *entries.Span, keys ...string) (n int, ok bool) {
	v, key := s.Attribute(keys...)
	u, whole := scan.WholeNumber(v)
	if ok = whole && u <= scan.MaxTokens; !ok && key != "" {
		s.Mismatch(key, v, scan.WantCount)
	}
	return int(u), ok
}

// dropOuter removes requests that contain another request. The span of a client and the span of its server are the
// same request. The span of an agent has the token sum of its calls. A request without a conversation gets the
// conversation of its outer span.
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
