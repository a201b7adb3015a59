package summary

import "github.com/replay-llm/replay/replay/collector"

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
