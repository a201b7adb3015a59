package summary

import (
	"github.com/replay-llm/replay/replay/collector"
)

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

// vllmKeys has the keys of vllm bench serve. Its ITL is that of all requests pooled
// and its TPOT one value per request, as in our report.
func vllmKeys(r *collector.Report) (o object) {
	o.add("duration", r.DurationMS/1000)
	o.add("completed", r.Completed)
	o.add("failed", r.Requests-r.Completed)
	o.add("total_input_tokens", r.InputTokens)
	o.add("total_output_tokens", r.OutputTokens)
	o.add("request_throughput", r.RequestsPerS)
	if goodput, ok := r.Values()["goodput_rps"]; ok {
		o.add("request_goodput", goodput)
	}
	o.add("output_throughput", r.OutputTokensPerS)
	o.add("total_token_throughput", r.TotalTokensPerS)
	o.addSpread("ttft_ms", &r.TTFT)
	o.addSpread("tpot_ms", &r.TPOT)
	o.addSpread("itl_ms", &r.ITL)
	o.addSpread("e2el_ms", &r.E2E)
	return o
}

// addSpread adds the statistics of a distribution as both vLLM and SGLang name them.
func (o *object) addSpread(name string, d *collector.Distribution) {
	o.add("mean_"+name, d.Mean)
	o.add("median_"+name, d.Median)
	o.add("std_"+name, d.Std)
	o.add("p75_"+name, d.P75)
	o.add("p90_"+name, d.P90)
	o.add("p95_"+name, d.P95)
	o.add("p99_"+name, d.P99)
}

// sglangKeys has the keys of sglang.bench_serving. Its ITL is that of all requests
// pooled and its TPOT one value per request, as in our report; concurrency is
// the mean number of requests in flight.
func sglangKeys(r *collector.Report) (o object) {
	o.add("backend", "replay")
	o.add("duration", r.DurationMS/1000)
	o.add("completed", r.Completed)
	o.add("total_input_tokens", r.InputTokens)
	o.add("total_output_tokens", r.OutputTokens)
	o.add("request_throughput", r.RequestsPerS)
	o.add("input_throughput", r.InputTokensPerS)
	o.add("output_throughput", r.OutputTokensPerS)
	o.add("total_throughput", r.TotalTokensPerS)
	o.addSpread("e2e_latency_ms", &r.E2E)
	o.addSpread("ttft_ms", &r.TTFT)
	o.addSpread("tpot_ms", &r.TPOT)
	o.addSpread("itl_ms", &r.ITL)
	o.add("max_itl_ms", r.ITL.Max)
	concurrency := 0.0
	if r.DurationMS > 0 {
		concurrency = float64(r.E2E.Mean*float64(r.Completed)) / r.DurationMS
	}
	o.add("concurrency", concurrency)
	return o
}
