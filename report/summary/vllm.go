package summary

import "github.com/replay-llm/replay/replay/collector"

// vllmKeys has the keys of vllm bench serve. Its ITL is that of all requests pooled
// and its TPOT one value per request, as in our report.
func vllmKeys(r *collector.Report) []entry {
	entries := []entry{
		{"duration", r.DurationMS / 1000},
		{"completed", r.Completed},
		{"failed", r.Requests - r.Completed},
		{"total_input_tokens", r.InputTokens},
		{"total_output_tokens", r.OutputTokens},
		{"request_throughput", r.RequestsPerS},
	}
	if goodput, ok := extraEntry(r, "goodput_rps"); ok {
		entries = append(entries, entry{"request_goodput", goodput})
	}
	entries = append(entries,
		entry{"output_throughput", r.OutputTokensPerS},
		entry{"total_token_throughput", r.TotalTokensPerS})
	for _, m := range []struct {
		name string
		of   *collector.Distribution
	}{{"ttft", &r.TTFT}, {"tpot", &r.TPOT}, {"itl", &r.ITL}, {"e2el", &r.E2E}} {
		entries = append(entries, spreadKeys(m.name+"_ms", m.of)...)
	}
	return entries
}

// spreadKeys is the statistics of a distribution as both vLLM and SGLang name them.
func spreadKeys(name string, d *collector.Distribution) []entry {
	return []entry{
		{"mean_" + name, d.Mean},
		{"median_" + name, d.Median},
		{"std_" + name, d.Std},
		{"p75_" + name, d.P75},
		{"p90_" + name, d.P90},
		{"p95_" + name, d.P95},
		{"p99_" + name, d.P99},
	}
}
