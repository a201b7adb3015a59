package summary

import "github.com/replay-llm/replay/replay/collector"

// aiperfKeys has the keys of profile_export_aiperf.json. Its inter-token latency is
// one value per request, which is our TPOT.
func aiperfKeys(r *collector.Report) (o object) {
	o.addTimes("time_to_first_token", &r.TTFT)
	o.addTimes("time_to_second_token", &r.TTST)
	o.addTimes("inter_token_latency", &r.TPOT)
	o.addTimes("request_latency", &r.E2E)
	o.addSingle("request_count", "requests", float64(r.Completed))
	o.addSingle("error_request_count", "requests", float64(r.Requests-r.Completed))
	o.addSingle("benchmark_duration", "sec", r.DurationMS/1000)
	o.addSingle("request_throughput", "requests/sec", r.RequestsPerS)
	o.addSingle("output_token_throughput", "tokens/sec", r.OutputTokensPerS)
	o.addSingle("total_token_throughput", "tokens/sec", r.TotalTokensPerS)
	o.addSingle("total_isl", "tokens", float64(r.InputTokens))
	o.addSingle("total_osl", "tokens", float64(r.OutputTokens))
	values := r.Values()
	if met, ok := values["slo_met_requests"].(int); ok {
		o.addSingle("good_request_count", "requests", float64(met))
	}
	if goodput, ok := values["goodput_rps"].(float64); ok {
		o.addSingle("goodput", "requests/sec", goodput)
	}
	return o
}

// addSingle adds what there is one value of.
func (o *object) addSingle(tag, unit string, v float64) {
	o.add(tag, []collector.Field{{Key: "unit", Value: unit}, {Key: "avg", Value: v}})
}

// addTimes adds the statistics of a distribution of times.
func (o *object) addTimes(tag string, d *collector.Distribution) {
	o.add(tag, []collector.Field{
		{Key: "unit", Value: "ms"},
		{Key: "avg", Value: d.Mean},
		{Key: "min", Value: d.Min},
		{Key: "max", Value: d.Max},
		{Key: "p50", Value: d.Median},
		{Key: "p75", Value: d.P75},
		{Key: "p90", Value: d.P90},
		{Key: "p95", Value: d.P95},
		{Key: "p99", Value: d.P99},
		{Key: "std", Value: d.Std},
	})
}
