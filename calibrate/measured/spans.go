package measured

import (
	"cmp"
	"fmt"
	"math"
	"strconv"

	"github.com/replay-llm/replay/loadgen/formats/entries"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// spanRow is the request of a span.
type spanRow struct {
	Request
	id, key, parent string
	engine          bool // the span has the time of the first token, as vLLM's spans do
	failed          bool
}

// The constants are names of attributes of vLLM's spans, in s since the arrival.
const (
	spanFirst = "gen_ai.latency.time_to_first_token"
	spanWhole = "gen_ai.latency.e2e"
	spanQueue = "gen_ai.latency.time_in_queue"
)

// addSpan adds a span if it is a request.
func (x *generated) addSpan(s *entries.Span) {
	number := func(keys ...string) float64 {
		text, _ := s.Attribute(keys...)
		v, err := strconv.ParseFloat(string(text), 64)
		if err != nil {
			return math.NaN()
		}
		return v
	}
	in := number("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
	out := number("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
	if math.IsNaN(in) || in > math.MaxInt32 || out > math.MaxInt32 {
		return
	}
	start := s.NeedStart()
	if math.IsNaN(x.zero) {
		x.zero = math.Floor(secondsSince(0, start))
	}
	id, _ := s.Attribute("gen_ai.request.id", "gen_ai.response.id")
	first, _ := s.Attribute(spanFirst)
	at := secondsSince(x.zero, start)
	r := Request{
		ID: identifier(cmp.Or(string(id), s.ID)), Input: int(in), Arrival: at, Queued: math.NaN(),
		First: at + number(spanFirst), Scheduled: at + number(spanQueue), Last: at + number(spanWhole),
	}
	if !math.IsNaN(out) {
		r.Output = int(out)
	}
	if math.IsNaN(r.Last) {
		r.Last = secondsSince(x.zero, s.NeedEnd())
	}
	x.spans = append(x.spans, spanRow{r, s.ID, s.Key, s.Parent, len(first) > 0, s.Failed()})
}

// secondsSince returns the s from zero to an instant, with zero in s since 1970, or NaN if the instant is unknown.
func secondsSince(zero float64, at scan.Stamp) float64 {
	ns, ok := at.NS()
	if !ok {
		return math.NaN()
	}
	// The whole seconds are subtracted first, because a float64 is not precise enough for ns since 1970.
	return float64(ns/1e9) - zero + float64(ns%1e9)/1e9
}

// readSpans reads the requests of spans. readSpans uses the spans of vLLM's engine if there are any, because they
// have the first token. Otherwise readSpans uses the spans of clients. Of nested spans, only the inner one counts.
func (m *Run) readSpans(path string, spans []spanRow) error {
	engine, outer := false, map[string]bool{}
	for i := range spans {
		engine, outer[spans[i].parent] = engine || spans[i].engine, true
	}
	m.Client = !engine
	for i := range spans {
		x := &spans[i]
		if engine && !x.engine && !x.failed || outer[x.key] {
			continue
		}
		r := x.Request
		if x.failed || r.Output == 0 {
			m.Failed++
			continue
		}
		if r.Input < 1 || r.Output < 1 || !(r.Arrival <= r.Last) || r.First < r.Arrival || r.First > r.Last {
			return fmt.Errorf("%s: span %s has %d input and %d output tokens, and begin, first and last token at %v, %v and %v s, must have at least 1 of each, and times in this order",
				path, x.id, r.Input, r.Output, r.Arrival, r.First, r.Last)
		}
		m.addRequest(r)
	}
	return nil
}
