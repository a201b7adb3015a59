package summary

import "github.com/replay-llm/replay/replay/collector"

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
