package measured

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestResultsAsFiles checks that a file of a load generator is a run. A file that lacks a list or a record is
// refused, and the error names what is missing.
func TestResultsAsFiles(t *testing.T) {
	list := func(value string) string { return "[" + strings.Repeat(value+",", 19) + value + "]" }
	starts := make([]string, 20)
	var export, guide []string
	for i := range starts {
		starts[i] = fmt.Sprint(i)
		export = append(export, fmt.Sprintf(`{"metadata":{"benchmark_phase":"profiling","request_start_ns":%d},"metrics":{"time_to_first_token":{"value":500,"unit":"ms"},"request_latency":{"value":2000,"unit":"ms"},"input_sequence_length":{"value":600,"unit":"tokens"},"output_sequence_length":{"value":4,"unit":"tokens"}},"error":null}`, (1_700_000_000+i)*1_000_000_000))
		guide = append(guide, fmt.Sprintf(`{"request_id":"%d","prompt_tokens":600,"output_tokens":4,"start_time":%d,"first_token_time":%v,"last_token_time":%d}`, i, i, float64(i)+0.5, i+2))
	}
	head := `{"request_throughput":1,"request_rate":1`
	lists := `,"input_lens":` + list("600") + `,"output_lens":` + list("4") + `,"ttfts":` + list("0.5") + `,"itls":` + list("[0.5,0.5,0.5]") + `,"errors":` + list(`""`)
	for name, c := range map[string]struct{ text, want string }{
		"vllm bench serve":         {head + lists + `,"start_times":[` + strings.Join(starts, ",") + "]}", ""},
		"sglang.bench_serving":     {strings.Replace(head+lists+"}", `"request_rate":1`, `"request_rate":Infinity,"max_concurrency":4`, 1), ""},
		"AIPerf":                   {strings.Join(export, "\n"), ""},
		"GuideLLM":                 {`{"benchmarks":[{"requests":{"successful":[` + strings.Join(guide, ",") + `]}}]}`, ""},
		"vllm bench serve, short":  {head + "}", "has no input_lens, output_lens, ttfts, itls: must be"},
		"vllm bench serve, lists":  {head + `,"ttfts":` + list("0.5") + "}", "has no input_lens, output_lens, itls: must be"},
		"genai-perf":               {`{"experiments":[{"requests":[{"timestamp":1}]}]}`, "genai-perf has no input_sequence_length"},
		"AIPerf, summary":          {`{"request_latency":{"avg":1},"request_count":{"avg":20}}`, "means and percentiles, no requests"},
		"GuideLLM, without rows":   {`{"benchmarks":[{"metrics":{}}]}`, "has no benchmarks[0].requests.successful"},
		"something else":           {`{"a":1}`, "is a file, must be the directory of a run"},
		"AIPerf without a latency": {strings.Replace(strings.Join(export, "\n"), "request_latency", "latency", 1), "request_latency"},
	} {
		path := filepath.Join(t.TempDir(), "result.json")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := ReadRequests(path, 0)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %v, want %s", name, err, c.want)
			}
			continue
		}
		if err != nil || len(m.Requests) != 20 || !m.Client {
			t.Fatalf("%s: %v", name, err)
		}
		if r := &m.Requests[3]; r.Input != 600 || r.Output != 4 || !near(r.First-r.Arrival, 0.5) || !near(r.Last-r.Arrival, 2) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
