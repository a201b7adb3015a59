// Package otlp writes the requests of a run as spans of OpenTelemetry, in OTLP's JSON: an object a line, as the collector's file
// receiver reads them.
package otlp

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/report/requests"
)

// perLine is the maximum number of requests in a JSON object.
const perLine = 500

// Run holds the common attributes of the spans.
type Run struct {
	Start time.Time // instant 0 of the logical clock
	Model string    // "": unknown
	Seed  uint64    // the first half of trace ids
}

type value struct {
	Text *string  `json:"stringValue,omitempty"`
	Int  *string  `json:"intValue,omitempty"` // 64 bits are texts in OTLP's JSON
	Real *float64 `json:"doubleValue,omitempty"`
}

type attribute struct {
	Key   string `json:"key"`
	Value value  `json:"value"`
}

type status struct {
	Code    int    `json:"code"`
	Message string `json:"message,omitempty"`
}

type span struct {
	Trace      string      `json:"traceId"`
	ID         string      `json:"spanId"`
	Parent     string      `json:"parentSpanId,omitempty"`
	Name       string      `json:"name"`
	Kind       int         `json:"kind"`
	Start      string      `json:"startTimeUnixNano"`
	End        string      `json:"endTimeUnixNano"`
	Attributes []attribute `json:"attributes,omitempty"`
	Status     *status     `json:"status,omitempty"`
}

// Kinds of spans and codes of a status, as OTLP numbers them.
const (
	internalSpan = 1
	serverSpan   = 2
	failed       = 2
)

// Write writes a span for each request, with a child span for each of its stages.
func Write(w io.Writer, run *Run, rows []requests.Row) error {
	type scope struct {
		Name string `json:"name"`
	}
	type scopeSpans struct {
		Scope scope  `json:"scope"`
		Spans []span `json:"spans"`
	}
	type resource struct {
		Attributes []attribute `json:"attributes"`
	}
	type resourceSpans struct {
		Resource   resource     `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	out := json.NewEncoder(w)
	for len(rows) > 0 {
		n := min(len(rows), perLine)
		var spans []span
		for i := range rows[:n] {
			spans = run.appendSpans(spans, &rows[i])
		}
		rows = rows[n:]
		all := map[string][]resourceSpans{"resourceSpans": {{
			Resource: resource{[]attribute{makeText("service.name", "replay")}}, ScopeSpans: []scopeSpans{{scope{"replay"}, spans}},
		}}}
		if err := out.Encode(all); err != nil {
			return err
		}
	}
	return nil
}

// appendSpans appends the spans of a request, first the span of the request itself.
func (run *Run) appendSpans(spans []span, r *requests.Row) []span {
	trace := fmt.Sprintf("%016x%016x", run.Seed, r.ID+1)
	root := span{Trace: trace, ID: fmt.Sprintf("%016x", r.ID*8+1), Name: "chat", Kind: serverSpan, Start: run.at(r.Arrival)}
	root.Attributes = append(root.Attributes, makeText("gen_ai.operation.name", "chat"), makeText("gen_ai.provider.name", "replay"))
	if run.Model != "" {
		root.Name += " " + run.Model
		root.Attributes = append(root.Attributes, makeText("gen_ai.request.model", run.Model))
	}
	root.Attributes = append(root.Attributes, makeText("gen_ai.conversation.id", r.Session),
		makeNumber("gen_ai.usage.input_tokens", r.Input), makeNumber("gen_ai.usage.output_tokens", r.Tokens), makeNumber("gen_ai.usage.cache_read.input_tokens", r.Reused))
	if r.TTFT.Known() {
		root.Attributes = append(root.Attributes, makeSeconds("gen_ai.response.time_to_first_chunk", r.TTFT))
	}
	if r.Worker.Known() {
		root.Attributes = append(root.Attributes, makeNumber("replay.worker", int(r.Worker)))
	}
	last := r.Arrival
	prefilled := r.First
	if r.PrefillEnd.Known() {
		prefilled = r.PrefillEnd
	}
	stages := spans[len(spans):]
	stages = append(stages, root)
	for i, stage := range []struct {
		name     string
		from, to requests.MS
	}{{"queue", r.Arrival, r.Admit}, {"prefill", r.Admit, prefilled}, {"transfer", r.PrefillEnd, r.DecodeStart}, {"decode", r.First, r.Last}} {
		if !stage.from.Known() || !stage.to.Known() {
			continue
		}
		last = max(last, stage.to)
		stages = append(stages, span{
			Trace: trace, ID: fmt.Sprintf("%016x", r.ID*8+2+i), Parent: root.ID, Name: stage.name, Kind: internalSpan, Start: run.at(stage.from), End: run.at(stage.to),
		})
	}
	stages[0].End = run.at(last)
	if !r.Finished() {
		stages[0].Status = &status{Code: failed, Message: "the request did not finish"}
	}
	return append(spans, stages...)
}

// at returns a time of the logical clock in ns of Unix time.
func (run *Run) at(t requests.MS) string {
	return strconv.FormatInt(run.Start.UnixNano()+int64(math.Round(float64(t)*1e6)), 10)
}

func makeText(key, v string) attribute { return attribute{key, value{Text: &v}} }

func makeNumber(key string, n int) attribute {
	v := strconv.Itoa(n)
	return attribute{key, value{Int: &v}}
}

func makeSeconds(key string, t requests.MS) attribute {
	v := float64(t) / 1000
	return attribute{key, value{Real: &v}}
}
