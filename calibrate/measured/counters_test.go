package measured

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// vllmMetrics returns the answer of a vLLM server at /metrics after this number of requests with 100 prompt and 10
// output tokens each. A quarter of the prompts was cached.
func vllmMetrics(created, requests, ms float64) string {
	t := &strings.Builder{}
	t.WriteString("# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig\n# TYPE vllm:cache_config_info gauge\n")
	fmt.Fprintf(t, "vllm:cache_config_info{block_size=\"16\",enable_prefix_caching=\"True\",engine=\"0\",num_gpu_blocks=\"1000\",sliding_window=\"None\"} 1.0\n")
	for _, x := range []struct {
		name  string
		value float64
	}{
		{`vllm:prompt_tokens_total{engine="0",model_name="m"}`, 100 * requests}, {`vllm:prompt_tokens_created{engine="0",model_name="m"}`, created},
		{`vllm:generation_tokens_total{engine="0",model_name="m"}`, 10 * requests}, {`vllm:num_preemptions_total{engine="0"}`, requests / 10},
		{`vllm:prefix_cache_queries_total{engine="0"}`, 100 * requests}, {`vllm:prefix_cache_hits_total{engine="0"}`, 25 * requests},
		{`vllm:request_success_total{engine="0",finished_reason="length"}`, requests - 1}, {`vllm:request_success_total{engine="0",finished_reason="stop"}`, 1},
		{`vllm:time_to_first_token_seconds_bucket{engine="0",le="0.02"}`, requests / 4}, {`vllm:time_to_first_token_seconds_bucket{engine="0",le="0.04"}`, requests},
		{`vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf"}`, requests}, {`vllm:time_to_first_token_seconds_count{engine="0"}`, requests},
		{`vllm:time_to_first_token_seconds_sum{engine="0"}`, 0.03 * requests},
		{`vllm:inter_token_latency_seconds_count{engine="0"}`, 9 * requests}, {`vllm:inter_token_latency_seconds_sum{engine="0"}`, 9 * requests * ms / 1000},
		{`python_gc_objects_collected_total{generation="0"}`, math.Inf(1)},
	} {
		fmt.Fprintf(t, "%s %v\n", x.name, x.value)
	}
	return t.String()
}

// TestCountedByServers reads two snapshots of each of three servers. TestCountedByServers checks the settings, the
// counts between the snapshots, and the slow servers.
func TestCountedByServers(t *testing.T) {
	dir := t.TempDir()
	for i, ms := range []float64{15, 15, 18} {
		for k, requests := range []float64{8, 48} {
			name := filepath.Join(dir, fmt.Sprintf("metrics-%d-%d.prom", k, i))
			if err := os.WriteFile(name, []byte(vllmMetrics(1.75e9+float64(i), requests, ms)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	all, err := readCounted(dir)
	if err != nil || len(all) != 3 {
		t.Fatalf("%d servers, %v", len(all), err)
	}
	total, err := SumCounted(all)
	if err != nil {
		t.Fatal(err)
	}
	if total.Requests != 120 || total.Prompts != 12000 || total.Generated != 1200 || total.Cached != 3000 || total.Preempted != 12 || total.First.Count != 120 || !near(total.First.Sum, 3.6) {
		t.Errorf("%+v, %+v", total, total.First)
	}
	if least, most := total.First.BoundsOf(0.5); least != 0.02 || most != 0.04 {
		t.Errorf("the median is between %v and %v", least, most)
	}
	s, err := ReadServer(dir, settingsInMetrics(all))
	if err != nil || s.Blocks != 1000 || s.BlockTokens != 16 || s.Pods != 3 || !s.PrefixCaching {
		t.Errorf("%+v, %v", s, err)
	}
	m := &Run{Pods: podsOf(all)}
	if m.noteSlow(); !strings.Contains(strings.Join(m.Settings.Notes, ";"), "metrics-1-2.prom is slow: 18.0 ms") {
		t.Errorf("%q, want the third", m.Settings.Notes)
	}
}

// TestReadSnapshots checks that one file can hold several snapshots of a server, and snapshots of several servers.
func TestReadSnapshots(t *testing.T) {
	one := vllmMetrics(1, 8, 15)
	all, err := readSnapshots("m.prom", strings.NewReader(one+one+strings.ReplaceAll(one, `engine="0"`, `engine="0",instance="b:8000"`)))
	if err != nil || len(all) != 3 || all[2].server != "b:8000" {
		t.Errorf("%d snapshots, %v", len(all), err)
	}
	for text, want := range map[string]string{
		"vllm:x 1\n\nhello": `m.prom:3: "hello", expected NAME{LABELS} NUMBER`, `vllm:x{a="b 1`: "m.prom:1: vllm:x: label a has no end", "vllm:x many": `m.prom:1: vllm:x is "many", must be a number`,
		`vllm:x{a="b"}`: `has no value, must have a number`, `vllm:x{a} 1`: `expected LABEL="VALUE"`,
	} {
		if _, err := readSnapshots("m.prom", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	name, _, x, err := parsePromLine(`m{a="x\"y\\",b="}"} 2.5e1 1700000000 # {id="1"} 3`)
	if err != nil || name != "m" || x.value != 25 || x.labels["a"] != `x"y\` || x.labels["b"] != "}" {
		t.Errorf("%q %+v %v", name, x, err)
	}
}

// FuzzSnapshots checks that all files of metrics give either an error message or counts.
func FuzzSnapshots(f *testing.F) {
	f.Add(vllmMetrics(1, 8, 15), vllmMetrics(1, 9, 15))
	f.Add("sglang:max_total_num_tokens 100\nsglang:page_size 0\n", "vllm:x_bucket{le=\"NaN\"} NaN\nvllm:x_count 1")
	f.Fuzz(func(t *testing.T, a, b string) {
		dir := t.TempDir()
		for name, text := range map[string]string{"a.prom": a, "metrics.txt": b} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		all, err := readCounted(dir)
		if err != nil {
			return
		}
		if _, err := SumCounted(all); err != nil {
			return
		}
		podsOf(all)
		if _, err := ReadServer(dir, settingsInMetrics(all)); err != nil && len(err.Error()) < 4 {
			t.Errorf("%q is no complaint", err)
		}
	})
}
