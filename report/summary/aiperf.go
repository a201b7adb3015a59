package summary

import "github.com/replay-llm/replay/replay/collector"

// aiperfKeys has the keys of profile_export_aiperf.json. Its inter-token latency is
// one value per request, which is our TPOT.
func aiperfKeys(r *collector.Report) []entry {
	single := func(tag, unit string, v float64) entry {
		return entry{tag, []entry{{"unit", unit}, {"avg", v}}}
	}
	entries := []entry{
		spreadAs("time_to_first_token", &r.TTFT),
		spreadAs("time_to_second_token", &r.TTST),
		spreadAs("inter_token_latency", &r.TPOT),
		spreadAs("request_latency", &r.E2E),
		single("request_count", "requests", float64(r.Completed)),
		single("error_request_count", "requests", float64(r.Requests-r.Completed)),
		single("benchmark_duration", "sec", r.DurationMS/1000),
		single("request_throughput", "requests/sec", r.RequestsPerS),
		single("output_token_throughput", "tokens/sec", r.OutputTokensPerS),
		single("total_token_throughput", "tokens/sec", r.TotalTokensPerS),
		single("total_isl", "tokens", float64(r.InputTokens)),
		single("total_osl", "tokens", float64(r.OutputTokens)),
	}
	if met, ok := extraEntry(r, "slo_met_requests"); ok {
		if n, ok := met.(int); ok {
			entries = append(entries, single("good_request_count", "requests", float64(n)))
		}
		if goodput, ok := extraEntry(r, "goodput_rps"); ok {
			if v, ok := goodput.(float64); ok {
				entries = append(entries, single("goodput", "requests/sec", v))
			}
		}
	}
	return entries
}

// spreadAs is the statistics of a distribution of times.
func spreadAs(tag string, d *collector.Distribution) entry {
	return entry{tag, []entry{
		{"unit", "ms"},
		{"avg", d.Mean},
		{"min", d.Min},
		{"max", d.Max},
		{"p50", d.Median},
		{"p75", d.P75},
		{"p90", d.P90},
		{"p95", d.P95},
		{"p99", d.P99},
		{"std", d.Std},
	}}
}
