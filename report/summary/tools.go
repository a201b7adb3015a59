package summary

import (
	"github.com/replay-llm/replay/replay/collector"
)

// aiperfKeys returns the keys of profile_export_aiperf.json. The inter-token latency of aiperf has one value per
// request, like our TPOT.
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
	if met, ok := r.Get("slo_met_requests").Value().(int); ok {
		o.addSingle("good_request_count", "requests", float64(met))
	}
	if goodput, ok := r.Get("goodput_rps").Value().(float64); ok {
		o.addSingle("goodput", "requests/sec", goodput)
	}
	return o
}

// addSingle adds a single value.
func (o *object) addSingle(tag, unit string, v float64) {
	o.add(collector.Of(tag, []collector.Field{collector.Of("unit", unit), collector.Of("avg", v)}))
}

// addTimes adds the statistics of a distribution of times.
func (o *object) addTimes(tag string, d *collector.Distribution) {
	o.add(collector.Of(tag, []collector.Field{
		collector.Of("unit", "ms"),
		collector.Of("avg", d.Mean),
		collector.Of("min", d.Min),
		collector.Of("max", d.Max),
		collector.Of("p50", d.Median),
		collector.Of("p75", d.P75),
		collector.Of("p90", d.P90),
		collector.Of("p95", d.P95),
		collector.Of("p99", d.P99),
		collector.Of("std", d.Std),
	}))
}

// vllmKeys returns the keys of vllm bench serve. The ITL of vllm bench serve pools all requests, and its TPOT has one
// value per request, as in our report.
func vllmKeys(r *collector.Report) (o object) {
	o.add(collector.Of("duration", r.DurationMS/1000))
	o.add(collector.Of("completed", r.Completed))
	o.add(collector.Of("failed", r.Requests-r.Completed))
	o.add(collector.Of("total_input_tokens", r.InputTokens))
	o.add(collector.Of("total_output_tokens", r.OutputTokens))
	o.add(collector.Of("request_throughput", r.RequestsPerS))
	if goodput := r.Get("goodput_rps"); goodput.Key != "" {
		goodput.Key = "request_goodput"
		o.add(goodput)
	}
	o.add(collector.Of("output_throughput", r.OutputTokensPerS))
	o.add(collector.Of("total_token_throughput", r.TotalTokensPerS))
	o.addSpread("ttft_ms", &r.TTFT)
	o.addSpread("tpot_ms", &r.TPOT)
	o.addSpread("itl_ms", &r.ITL)
	o.addSpread("e2el_ms", &r.E2E)
	return o
}

// addSpread adds the statistics of a distribution with the names of vLLM and SGLang.
func (o *object) addSpread(name string, d *collector.Distribution) {
	o.add(collector.Of("mean_"+name, d.Mean))
	o.add(collector.Of("median_"+name, d.Median))
	o.add(collector.Of("std_"+name, d.Std))
	o.add(collector.Of("p75_"+name, d.P75))
	o.add(collector.Of("p90_"+name, d.P90))
	o.add(collector.Of("p95_"+name, d.P95))
	o.add(collector.Of("p99_"+name, d.P99))
}

// sglangKeys returns the keys of sglang.bench_serving. The ITL of sglang.bench_serving pools all requests, and its
// TPOT has one value per request, as in our report. The concurrency of sglang.bench_serving is the mean number of
// requests in flight.
func sglangKeys(r *collector.Report) (o object) {
	o.add(collector.Of("backend", "replay"))
	o.add(collector.Of("duration", r.DurationMS/1000))
	o.add(collector.Of("completed", r.Completed))
	o.add(collector.Of("total_input_tokens", r.InputTokens))
	o.add(collector.Of("total_output_tokens", r.OutputTokens))
	o.add(collector.Of("request_throughput", r.RequestsPerS))
	o.add(collector.Of("input_throughput", r.InputTokensPerS))
	o.add(collector.Of("output_throughput", r.OutputTokensPerS))
	o.add(collector.Of("total_throughput", r.TotalTokensPerS))
	o.addSpread("e2e_latency_ms", &r.E2E)
	o.addSpread("ttft_ms", &r.TTFT)
	o.addSpread("tpot_ms", &r.TPOT)
	o.addSpread("itl_ms", &r.ITL)
	o.add(collector.Of("max_itl_ms", r.ITL.Max))
	concurrency := 0.0
	if r.DurationMS > 0 {
		concurrency = float64(r.E2E.Mean*float64(r.Completed)) / r.DurationMS
	}
	o.add(collector.Of("concurrency", concurrency))
	return o
}
