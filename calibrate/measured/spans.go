package measured

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/json"
)

// otlpBatch is what an exporter of OpenTelemetry wrote at once, in OTLP's JSON.
type otlpBatch struct {
	Scopes []struct {
		Spans []otlpSpan `json:"spans"`
	} `json:"scopeSpans"`
}

// otlpSpan is a span as far as it tells of a request.
type otlpSpan struct {
	ID     string          `json:"spanId"`
	Parent string          `json:"parentSpanId"`
	Start  json.RawMessage `json:"startTimeUnixNano"`
	End    json.RawMessage `json:"endTimeUnixNano"`
	Status struct {
		Code any `json:"code"`
	} `json:"status"`
	Attributes []struct {
		Key   string                     `json:"key"`
		Value map[string]json.RawMessage `json:"value"`
	} `json:"attributes"`
}

// text returns the first of several attributes that is there, "" where there is none.
func (x *otlpSpan) text(keys ...string) string {
	for _, key := range keys {
		for _, a := range x.Attributes {
			if a.Key != key {
				continue
			}
			for _, kind := range []string{"intValue", "doubleValue", "stringValue"} {
				if v, ok := a.Value[kind]; ok {
					return strings.Trim(string(v), `"`)
				}
			}
		}
	}
	return ""
}

// number returns an attribute as a number, NaN where there is none.
func (x *otlpSpan) number(keys ...string) float64 {
	v, err := strconv.ParseFloat(x.text(keys...), 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

// failed reports whether the span ended with an error.
func (x *otlpSpan) failed() bool {
	return x.Status.Code == 2.0 || x.Status.Code == "STATUS_CODE_ERROR"
}

// The attributes that vLLM's own spans have: s since the arrival.
const (
	spanFirst = "gen_ai.latency.time_to_first_token"
	spanWhole = "gen_ai.latency.e2e"
	spanQueue = "gen_ai.latency.time_in_queue"
)

// request returns the span as a request, and false where it is none.
func (x *otlpSpan) request(zero float64) (r Request, ok bool) {
	in := x.number("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
	out := x.number("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
	if math.IsNaN(in) || in > math.MaxInt32 || out > math.MaxInt32 {
		return r, false
	}
	seconds := func(text json.RawMessage) float64 {
		ns, err := strconv.ParseInt(strings.Trim(string(text), `"`), 10, 64)
		if err != nil {
			return math.NaN()
		}
		// Of instants since 1970 the whole seconds go first: a float64 has no room for both.
		return float64(ns/1e9) - zero + float64(ns%1e9)/1e9
	}
	r = Request{ID: identifier(cmp.Or(x.text("gen_ai.request.id", "gen_ai.response.id"), x.ID)), Input: int(in), Arrival: seconds(x.Start), Queued: math.NaN()}
	if !math.IsNaN(out) {
		r.Output = int(out)
	}
	r.First, r.Scheduled, r.Last = r.Arrival+x.number(spanFirst), r.Arrival+x.number(spanQueue), r.Arrival+x.number(spanWhole)
	if math.IsNaN(r.Last) {
		r.Last = seconds(x.End)
	}
	return r, true
}

// readSpans reads the requests of spans: those of vLLM's engine where there are any, which tell
// the first token, and those of clients otherwise. Of spans within each other the inner counts.
func (m *Run) readSpans(path string, batches []otlpBatch) error {
	var spans []*otlpSpan
	engine, outer := false, map[string]bool{}
	zero := math.NaN()
	for i := range batches {
		for j := range batches[i].Scopes {
			for k := range batches[i].Scopes[j].Spans {
				x := &batches[i].Scopes[j].Spans[k]
				r, ok := x.request(0)
				if !ok {
					continue
				}
				spans, engine, outer[x.Parent] = append(spans, x), engine || x.text(spanFirst) != "", true
				if math.IsNaN(zero) {
					zero = math.Floor(r.Arrival)
				}
			}
		}
	}
	m.Client = !engine
	for _, x := range spans {
		if engine && x.text(spanFirst) == "" && !x.failed() || outer[x.ID] {
			continue
		}
		r, _ := x.request(zero)
		if x.failed() || r.Output == 0 {
			m.Failed++
			continue
		}
		if r.Input < 1 || r.Output < 1 || !(r.Arrival <= r.Last) || r.First < r.Arrival || r.First > r.Last {
			return fmt.Errorf("%s: span %s has %d input and %d output tokens, and begin, first and last token at %v, %v and %v s, want at least 1 of each, and times in this order",
				path, x.ID, r.Input, r.Output, r.Arrival, r.First, r.Last)
		}
		m.addRequest(r)
	}
	return nil
}
