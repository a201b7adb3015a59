package measured

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStartsOfClosedLoop checks a result of sglang.bench_serving, which has no start times. If requests were sent
// when earlier requests ended, the start times follow from these ends.
func TestStartsOfClosedLoop(t *testing.T) {
	dir := t.TempDir()
	list := func(of func(i int) string) string {
		var all []string
		for i := range 24 {
			all = append(all, of(i))
		}
		return "[" + strings.Join(all, ", ") + "]"
	}
	text := `{"backend": "sglang", "request_rate": Infinity, "max_concurrency": 2, "input_lens": ` + list(func(int) string { return "100" }) +
		`, "output_lens": ` + list(func(i int) string { return fmt.Sprint(3 - 3*(i/23)) }) + `, "ttfts": ` + list(func(i int) string { return fmt.Sprint(float64(1+i%2) / 10) }) +
		`, "itls": ` + list(func(int) string { return "[0.2, 0.3]" }) + `, "errors": ` + list(func(int) string { return `""` }) +
		`, "cached_tokens": ` + list(func(int) string { return "64" }) + `, "generated_texts": ["x"], "mean_accept": NaN}` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "sglang_0501_24_random.jsonl"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := ReadRequests(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Requests) != 23 || m.Failed != 1 || !m.Client || *m.Requests[0].Cached != 64 || !strings.Contains(strings.Join(m.Settings.Notes, ";"), "each when one of 2 had ended") {
		t.Fatalf("%d requests, %d failed, %q", len(m.Requests), m.Failed, m.Settings.Notes)
	}
	for i, want := range []float64{0, 0, 0.6, 0.7, 1.2, 1.4} {
		if r := &m.Requests[i]; !near(r.Arrival, want) || !near(r.Last-r.First, 0.5) {
			t.Errorf("request %d at %v, want %v", i, r.Arrival, want)
		}
	}
}

// TestGuideLLM reads reports of GuideLLM in the forms of three releases. Requests cut off at the end are replayed but
// not judged.
func TestGuideLLM(t *testing.T) {
	for name, row := range map[string]string{
		"0.5": `{"request_id":%d,"input_metrics":{"text_tokens":600},"output_metrics":{"text_tokens":7},"info":{"timings":{"request_start":%v,"first_token_iteration":%v,"last_token_iteration":%v}}}`,
		"0.4": `{"request_id":"%d","input_metrics":{"text_tokens":600},"output_metrics":{"text_tokens":7},"info":{"timings":{"request_start":%v,"first_iteration":%v,"last_iteration":%v}}}`,
		"0.3": `{"request_id":"%d","prompt_tokens":600,"output_tokens":7,"start_time":%v,"first_token_time":%v,"last_token_time":%v}`,
	} {
		dir := t.TempDir()
		var rows []string
		for i := range 20 {
			at := 1.7e9 + float64(i)
			rows = append(rows, fmt.Sprintf(row, i, at, at+0.5, at+2))
		}
		part := strings.Replace(fmt.Sprintf(row, 99, 1.7e9, 1.7e9+1, 1.7e9+2), `:7`, `:3`, 1)
		none := `{"request_id":"x"}`
		text := `{"benchmarks":[{"requests":{"successful":[` + strings.Join(rows, ",") + `],"incomplete":[` + part + `,` + none + `],"errored":[` + none + `]}}]}`
		if err := os.WriteFile(filepath.Join(dir, "benchmarks.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := ReadRequests(dir, 0)
		if err != nil || len(m.Requests) != 21 || m.Failed != 2 || m.Cut != 1 {
			t.Fatalf("%s: %d requests, %d failed, %v", name, len(m.Requests), m.Failed, err)
		}
		r := &m.Requests[0]
		if r.Input != 600 || r.Output != 7 || !near(r.First, 0.5) || !near(r.Last, 2) {
			t.Errorf("%s: %+v", name, r)
		}
		cut := &m.Requests[1]
		if cut.Output != 3 || !math.IsNaN(cut.Last) || cut.Arrival != 0 {
			t.Errorf("%s: %+v, want what broke off", name, cut)
		}
	}
}

// TestSpansMeasured checks that spans of vLLM have the server's own times, and that enclosing and failed spans are
// ignored. Without spans of vLLM, the spans of clients count.
func TestSpansMeasured(t *testing.T) {
	span := func(i int, id, parent, more string) string {
		return fmt.Sprintf(`{"spanId":"%s%d","parentSpanId":"%s","startTimeUnixNano":"%d000000000","endTimeUnixNano":"%d500000000","attributes":[{"key":"gen_ai.usage.input_tokens","value":{"intValue":"600"}},{"key":"gen_ai.usage.output_tokens","value":{"intValue":7}}%s]}`,
			id, i, parent, 1700000000+i, 1700000001+i, more)
	}
	var engine, client strings.Builder
	for i := range 21 {
		outer := span(i, "c", "", "")
		times := `,{"key":"gen_ai.latency.time_to_first_token","value":{"doubleValue":0.25}},{"key":"gen_ai.latency.e2e","value":{"doubleValue":1.25}}`
		inner := span(i, "e", fmt.Sprint("c", i), times)
		if i == 20 {
			outer = strings.Replace(outer, `{"spanId"`, `{"status":{"code":2},"spanId"`, 1)
			inner = strings.Replace(inner, `{"spanId"`, `{"status":{"code":2},"spanId"`, 1)
		}
		fmt.Fprintf(&client, `{"resourceSpans":[{"scopeSpans":[{"spans":[%s]}]}]}`+"\n", outer)
		fmt.Fprintf(&engine, `{"resourceSpans":[{"scopeSpans":[{"spans":[%s,%s]}]}]}`+"\n", outer, inner)
	}
	for text, first := range map[string]float64{engine.String(): 0.25, client.String(): math.NaN()} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "spans.jsonl"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := ReadRequests(dir, 0)
		if err != nil || len(m.Requests) != 20 || m.Failed != 1 || m.Client != math.IsNaN(first) {
			t.Fatalf("%d requests, %d failed, client %v, %v", len(m.Requests), m.Failed, m.Client, err)
		}
		last := map[bool]float64{false: 4.25, true: 4.5}[m.Client]
		if r := &m.Requests[3]; r.Arrival != 3 || !near(r.First-3, first) && !m.Client || !near(r.Last, last) || math.IsNaN(r.First) != m.Client {
			t.Errorf("%+v", r)
		}
	}
}

// FuzzGenerated checks that every result of a load generator gives either an error message or requests.
func FuzzGenerated(f *testing.F) {
	f.Add(`{"input_lens":[1],"output_lens":[1],"ttfts":[0.1],"itls":[[]],"request_rate": Infinity}`)
	f.Add(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"spanId":"a","startTimeUnixNano":"1","attributes":[{"key":"gen_ai.usage.input_tokens","value":{"intValue":"600"}}]}]}]}]}`)
	f.Add(`{"benchmarks":[{"requests":{"successful":[{"request_id":1,"prompt_tokens":6,"output_tokens":7,"start_time":1,"first_token_time":2,"last_token_time":3}]}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "r.jsonl")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		m := &Run{}
		if found, err := m.readGenerated(path); err == nil && found && len(m.Requests) < Fewest {
			t.Errorf("%d requests", len(m.Requests))
		}
	})
}
