package summary

import "github.com/replay-llm/replay/replay/collector"

// sglangKeys has the keys of sglang.bench_serving. Its ITL is that of all requests
// pooled and its TPOT one value per request, as in our report; concurrency is
// the mean number of requests in flight.
func sglangKeys(r *collector.Report) []entry {
	concurrency := 0.0
	if r.DurationMS > 0 {
		concurrency = float64(r.E2E.Mean*float64(r.Completed)) / r.DurationMS
	}
	entries := []entry{
		{"backend", "replay"},
		{"duration", r.DurationMS / 1000},
		{"completed", r.Completed},
		{"total_input_tokens", r.InputTokens},
		{"total_output_tokens", r.OutputTokens},
		{"request_throughput", r.RequestsPerS},
		{"input_throughput", r.InputTokensPerS},
		{"output_throughput", r.OutputTokensPerS},
		{"total_throughput", r.TotalTokensPerS},
	}
	for _, m := range []struct {
		name string
		of   *collector.Distribution
	}{{"e2e_latency", &r.E2E}, {"ttft", &r.TTFT}, {"tpot", &r.TPOT}, {"itl", &r.ITL}} {
		entries = append(entries, spreadKeys(m.name+"_ms", m.of)...)
	}
	return append(entries,
		entry{"max_itl_ms", r.ITL.Max},
		entry{"concurrency", concurrency})
}
