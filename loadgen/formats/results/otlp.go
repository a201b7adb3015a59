package results

import (
	"slices"

	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/entries"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// otlpRows reads spans of OpenTelemetry: requests are the spans with token counts.
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

// readSpan keeps a span, and what it has of a request. Failed requests are left out.
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

// readCount reads the first of several attributes that is there, a number of tokens.
func readCount(s *entries.Span, keys ...string) (n int, ok bool) {
	v, key := s.Attribute(keys...)
	u, whole := scan.WholeNumber(v)
	if ok = whole && u <= scan.MaxTokens; !ok && key != "" {
		s.Mismatch(key, v, scan.WantCount)
	}
	return int(u), ok
}

// dropOuter leaves out spans with a request within them. A client's call and the server's span of it are one request;
// an agent's span is the sum of its calls. A request without a conversation takes that of its outer span.
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
