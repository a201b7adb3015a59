package otlp_test

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/report/otlp"
	"github.com/replay-llm/replay/report/requests"
)

// rowAt returns a request that arrives at the given time and ends 100 ms later.
func rowAt(id int, arrival requests.MS) requests.Row {
	unknown := requests.Unknown()
	r := requests.Row{ID: id, Session: "s", Input: 900, Output: 20, Tokens: 20, Reused: 512, Worker: 1, TTFT: 40}
	r.Instants = requests.Instants{Arrival: arrival, Admit: arrival + 10, First: arrival + 40, Last: arrival + 100, PrefillEnd: unknown, DecodeStart: unknown}
	return r
}

// TestWrite checks the spans of a finished request and of an unfinished request.
func TestWrite(t *testing.T) {
	cut := rowAt(1, 5)
	cut.Admit, cut.First, cut.Last, cut.TTFT, cut.Tokens = requests.Unknown(), requests.Unknown(), requests.Unknown(), requests.Unknown(), 0
	var out bytes.Buffer
	if err := otlp.Write(&out, &otlp.Run{Start: time.Unix(1000, 0), Model: "llama"}, []requests.Row{rowAt(0, 2.5), cut}); err != nil {
		t.Fatal(err)
	}
	var file struct {
		ResourceSpans []struct {
			ScopeSpans []struct {
				Spans []struct {
					TraceID, SpanID, ParentSpanID, Name, StartTimeUnixNano, EndTimeUnixNano string
					Status                                                                  *struct{ Code int }
				}
			}
		}
	}
	if err := json.Unmarshal(out.Bytes(), &file); err != nil {
		t.Fatal(err)
	}
	spans := file.ResourceSpans[0].ScopeSpans[0].Spans
	var lines []string
	for _, s := range spans {
		if len(s.TraceID) != 32 || len(s.SpanID) != 16 {
			t.Errorf("ids %q and %q", s.TraceID, s.SpanID)
		}
		line := s.Name + " " + s.StartTimeUnixNano + " " + s.EndTimeUnixNano
		if s.ParentSpanID != "" {
			line = "- " + line
		}
		if s.Status != nil {
			line += " failed"
		}
		lines = append(lines, line)
	}
	want := `chat llama 1000002500000 1000102500000
- queue 1000002500000 1000012500000
- prefill 1000012500000 1000042500000
- decode 1000042500000 1000102500000
chat llama 1000005000000 1000005000000 failed`
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("spans are\n%s\nmust be\n%s", got, want)
	}
	if text := out.String(); !strings.Contains(text, `{"key":"gen_ai.usage.input_tokens","value":{"intValue":"900"}}`) || strings.Contains(text, "null") {
		t.Errorf("%s", text)
	}
}

// TestLines checks that the number of requests in an object is bounded.
func TestLines(t *testing.T) {
	var rows []requests.Row
	for i := range 1001 {
		rows = append(rows, rowAt(i, requests.MS(i)))
	}
	var out bytes.Buffer
	if err := otlp.Write(&out, &otlp.Run{Start: time.Unix(0, math.MaxInt32)}, rows); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n != 3 {
		t.Errorf("%d lines, must be 3", n)
	}
}
