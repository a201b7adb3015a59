package summary

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/replay-llm/replay/replay/collector"
)

func report() *collector.Report {
	d := func(v float64) collector.Distribution {
		return collector.Distribution{Mean: v, Min: v - 1, Max: v + 4, Median: v + 0.25, P75: v + 1, P90: v + 2, P95: v + 2.5, P99: v + 3, Std: 0.5}
	}
	r := &collector.Report{
		Requests: 11, Completed: 10, InputTokens: 1000, OutputTokens: 200, DurationMS: 4000,
		RequestsPerS: 2.5, InputTokensPerS: 250, OutputTokensPerS: 50, TotalTokensPerS: 300,
		TTFT: d(100), TTST: d(20), TPOT: d(10), ITL: d(12), E2E: d(400),
	}
	r.Add(collector.Of("goodput_rps", 1.25), collector.Of("slo_met_requests", 5))
	return r
}

// Each tool finds its values under its own keys.
func TestFormats(t *testing.T) {
	for name, want := range map[string]map[string]float64{
		"native": {"p99_itl_ms": 15, "completed_requests": 10, "goodput_rps": 1.25},
		"vllm": {
			"duration": 4, "completed": 10, "failed": 1, "request_goodput": 1.25, "total_token_throughput": 300,
			"median_ttft_ms": 100.25, "p99_tpot_ms": 13, "mean_itl_ms": 12, "std_e2el_ms": 0.5,
		},
		"sglang": {
			"duration": 4, "total_throughput": 300, "input_throughput": 250, "concurrency": 1,
			"mean_e2e_latency_ms": 400, "median_tpot_ms": 10.25, "p95_itl_ms": 14.5, "max_itl_ms": 16,
		},
		"aiperf": {
			"time_to_first_token.p99": 103, "inter_token_latency.avg": 10, "request_latency.p50": 400.25,
			"benchmark_duration.avg": 4, "request_count.avg": 10, "goodput.avg": 1.25, "good_request_count.avg": 5, "total_osl.avg": 200,
		},
	} {
		var out bytes.Buffer
		if err := Write(&out, name, report()); err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, &out)
		}
		for key, v := range want {
			object := got
			if outer, inner, ok := strings.Cut(key, "."); ok {
				object, _ = got[outer].(map[string]any)
				key = inner
			}
			if object[key] != v {
				t.Errorf("%s: %s is %v, want %v", name, key, object[key], v)
			}
		}
	}
	if err := Write(io.Discard, "x", report()); err == nil {
		t.Error("format x is taken")
	}
}

func TestMarkdown(t *testing.T) {
	var out strings.Builder
	if err := WriteMarkdown(&out, []Named{{"a|b", report()}, {"c", &collector.Report{}}}); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"| Metric | a\\|b | c |\n| --- | ---: | ---: |\n", "| `completed_requests` | 10 | 0 |\n", "| `goodput_rps` | 1.25 |  |\n"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("no %q in\n%s", line, &out)
		}
	}
	if strings.Contains(out.String(), "wall") {
		t.Error("real time is in the table")
	}
}
