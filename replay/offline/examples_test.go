package offline

import (
	"fmt"
	"slices"
	"testing"

	"github.com/replay-llm/replay/loadgen"
)

// TestExamples replays the worked examples of the rules in docs/rules/harness.md.
func TestExamples(t *testing.T) {
	for _, e := range slices.Concat(singleExamples(), clusterExamples(), workloadExamples()) {
		t.Run(e.name, e.run)
	}
}

const sessionsTrace = `
	{"session_id":"a","timestamp":100,"input_length":64,"output_length":2,"hash_ids":[1]}
	{"session_id":"b","timestamp":110,"input_length":64,"output_length":2,"hash_ids":[7]}
	{"session_id":"a","delay":20,"input_length":128,"output_length":2,"hash_ids":[1,2]}
	{"session_id":"b","timestamp":125,"input_length":128,"output_length":1,"hash_ids":[7,8]}`

func singleExamples() []example {
	return []example{{
		name: "E1 one request, one worker", block: 512, engine: `{"block_size":512}`,
		trace: `{"timestamp":0,"input_length":1000,"output_length":5,"hash_ids":[0,1]}`,
		want:  `1: w0 0.0|same|0|37.852452, 43.599045000000004, 60.83882400000002`,
		report: `
			num_requests 1
			completed_requests 1
			mean_ttft_ms 37.852452
			p99_ttft_ms 37.852452
			std_ttft_ms 0.0
			median_ttst_ms 5.746593000000004
			max_tpot_ms 5.746593000000004
			min_itl_ms 5.746593000000004
			max_itl_ms 5.746593000000004
			mean_itl_ms 5.746593000000004
			std_itl_ms 0.0
			max_e2e_latency_ms 60.83882400000002
			duration_ms 60.83882400000002
			mean_output_token_throughput_per_user 174.01615183118054
			request_throughput_rps 16.436872612790804
			input_throughput_tok_s 16436.8726127908
			output_throughput_tok_s 82.18436306395401
			total_throughput_tok_s 16519.056975854757
			prefix_cache_reused_ratio 0.0
			processed_tokens 1005`,
	}, {
		name: "E3 concurrency 2", concurrency: 2,
		trace: `
			{"timestamp":0,"input_length":64,"output_length":2,"hash_ids":[1]}
			{"timestamp":1000,"input_length":64,"output_length":4,"hash_ids":[2]}
			{"timestamp":2000,"input_length":64,"output_length":2,"hash_ids":[3]}
			{"timestamp":3000,"input_length":128,"output_length":1,"hash_ids":[1,4]}`,
		want: `
			1: w0 0.0|same|0|24.198391, 29.951576000000003
			2: w0 0.0|same|0|24.198391, 29.951576000000003, 58.92953500000001
			3: w0 29.951576000000003|same|0|53.176350000000006, 58.92953500000001
			4: w0 58.92953500000001|same|64|82.15101300000002`,
		report: `
			duration_ms 82.15101300000002
			prefix_cache_reused_ratio 0.2
			min_ttft_ms 23.221478000000012
			median_ttft_ms 24.198391
			max_ttft_ms 24.198391
			p90_itl_ms 23.224774000000004
			request_throughput_rps 48.69081772613077`,
	}, {
		name: "E4 sessions with delays", trace: sessionsTrace,
		want: `
			1: w0 0.0|same|0|23.218181, 46.442955000000005
			2: w0 10.0|23.218181|0|46.442955000000005, 52.189548
			3: w0 66.44295500000001|same|64|89.66443300000002, 112.89579800000001
			4: w0 67.189548|89.66443300000002|64|112.89579800000001`,
		report: `
			duration_ms 112.89579800000001
			min_ttft_ms 23.218181
			median_ttft_ms 36.442955000000005
			p90_ttft_ms 45.70625000000001
			median_e2e_latency_ms 46.442955000000005
			max_e2e_latency_ms 46.452843
			prefix_cache_reused_ratio 0.3333333333333333`,
	}, {
		name: "E5 sessions at twice the speed", trace: sessionsTrace, speedup: 2,
		want: `
			1: w0 0.0|same|0|23.218181, 46.442955000000005
			2: w0 5.0|23.218181|0|46.442955000000005, 52.189548
			3: w0 56.442955000000005|same|64|79.66443300000002, 102.89579800000001
			4: w0 59.689548|79.66443300000002|64|102.89579800000001`,
		report: `
			duration_ms 102.89579800000001
			median_ttft_ms 41.442955000000005
			max_ttft_ms 43.20625000000001
			max_e2e_latency_ms 47.189548
			request_throughput_rps 38.87427939477178`,
	}, {
		// The single worker reads no arrivals within a pass. A turn that becomes ready during a pass arrives at its
		// end.
		name: "E6 sessions, concurrency 2, one worker", trace: sessionsTrace, concurrency: 2,
		want: `
			1: w0 0.0|same|0|24.198391, 29.951576000000003
			2: w0 0.0|same|0|24.198391, 29.951576000000003
			4: w0 44.951576|same|64|68.17305400000001
			3: w0 68.17305400000001|same|64|91.39453200000001, 97.14442100000001`,
		report: `
			duration_ms 97.14442100000001
			min_ttft_ms 23.221478000000005
			max_ttft_ms 24.198391
			prefix_cache_reused_ratio 0.3333333333333333`,
	}, {
		name: "E12 arrival at the end of a pass",
		trace: `
			{"timestamp":0,"input_length":64,"output_length":2,"hash_ids":[1]}
			{"timestamp":23.218181,"input_length":64,"output_length":1,"hash_ids":[2]}`,
		want: `
			1: w0 0.0|same|0|23.218181, 46.442955000000005
			2: w0 23.218181|same|0|46.442955000000005`,
		report: `duration_ms 46.442955000000005`,
	}, {
		name: "E12 arrival just after the end of a pass",
		trace: `
			{"timestamp":0,"input_length":64,"output_length":2,"hash_ids":[1]}
			{"timestamp":23.218182,"input_length":64,"output_length":1,"hash_ids":[2]}`,
		want: `
			1: w0 0.0|same|0|23.218181, 28.964774000000002
			2: w0 23.218182|28.964774000000002|0|52.18295500000001`,
		report: `duration_ms 52.18295500000001`,
	}}
}

const threeRequests = `
	{"timestamp":0,"input_length":128,"output_length":3,"hash_ids":[1,2]}
	{"timestamp":0,"input_length":128,"output_length":2,"hash_ids":[1,3]}
	{"timestamp":10,"input_length":64,"output_length":2,"hash_ids":[1]}`

const (
	slowLink   = `{"block_size":64,"worker_type":"prefill","kv_transfer_bandwidth":1.0,"kv_bytes_per_token":100000}`
	noLink     = `{"block_size":64,"worker_type":"prefill"}`
	decodeArgs = `{"block_size":64,"worker_type":"decode"}`
)

func clusterExamples() []example {
	return []example{{
		name: "E2 three workers, unsorted file with a tie", workers: 3,
		trace: `
			{"timestamp":5,"input_length":128,"output_length":2,"hash_ids":[1,2]}
			{"timestamp":0,"input_length":100,"output_length":2,"hash_ids":[3,4]}
			{"timestamp":5,"input_length":64,"output_length":3,"hash_ids":[5]}
			{"timestamp":5,"input_length":128,"output_length":2,"hash_ids":[3,4]}
			{"timestamp":30,"input_length":128,"output_length":1,"hash_ids":[3,6]}`,
		want: `
			2: w0 0.0|same|0|23.770567000000003, 46.995341
			1: w1 5.0|same|0|29.198391, 34.948280000000004
			3: w2 5.0|same|0|28.218181, 33.964774000000006, 39.71136700000001
			4: w0 5.0|23.770567000000003|64|46.995341, 52.74523000000001
			5: w1 30.0|34.948280000000004|0|59.14667100000001`,
		report: `
			duration_ms 59.14667100000001
			prefix_cache_reused_ratio 0.11678832116788321
			request_throughput_rps 84.53561148014568
			median_ttft_ms 24.198391
			p75_ttft_ms 29.146671000000012
			p90_ttft_ms 41.995341
			max_ttft_ms 41.995341
			median_ttst_ms 5.749889000000003
			p75_ttst_ms 5.749889000000003
			p90_ttst_ms 23.224774`,
	}, {
		// With two workers, unlike with one, a turn arrives when it becomes ready.
		name: "E6 sessions, concurrency 2, two workers", trace: sessionsTrace, concurrency: 2, workers: 2,
		want: `
			1: w0 0.0|same|0|23.218181, 28.964774000000002
			2: w1 0.0|same|0|23.218181, 28.964774000000002
			4: w0 43.964774000000006|same|0|68.163165
			3: w1 48.964774000000006|same|0|73.163165, 78.913054`,
		report: `
			duration_ms 78.913054
			prefix_cache_reused_ratio 0.0
			min_ttft_ms 23.218181
			max_ttft_ms 24.198391`,
	}, {
		name: "E7 prefill and decode, KV transfer", trace: threeRequests, prefill: slowLink, decode: decodeArgs,
		want: `
			1: w0 0.0|same|64|43.07193800000001, 48.82841800000001, 54.57830700000002
			2: w0 0.0|same|64|43.07193800000001, 48.82841800000001
			3: w0 10.0|19.43216|64|31.575456000000003, 37.32204900000001`,
		report: `
			duration_ms 54.57830700000002
			prefix_cache_reused_ratio 0.6
			min_ttft_ms 21.575456000000003
			median_ttft_ms 43.07193800000001
			max_ttft_ms 43.07193800000001
			min_itl_ms 5.746593000000004
			median_itl_ms 5.756480000000003
			max_itl_ms 5.756480000000003`,
	}, {
		// A KV cache in transfer does not count as a request in flight.
		name: "E7b KV transfer, concurrency 1", trace: threeRequests, prefill: slowLink, decode: decodeArgs, concurrency: 1,
		want: `
			1: w0 0.0|same|0|36.998391, 42.74828, 48.498169000000004
			2: w0 18.451798|same|64|54.473276, 60.223165
			3: w0 48.498169000000004|same|64|65.966461, 71.713054`,
		report: `
			duration_ms 71.713054
			prefix_cache_reused_ratio 0.4`,
	}, {
		name: "E7c no KV transfer, concurrency 1", trace: threeRequests, prefill: noLink, decode: decodeArgs, concurrency: 1,
		want: `
			1: w0 0.0|same|0|24.198391, 29.94828, 35.698169
			2: w0 35.698169|same|64|58.919647, 64.669536
			3: w0 64.669536|same|64|70.412832, 76.159425`,
		report: `
			duration_ms 76.159425
			min_ttft_ms 5.743296000000001
			median_ttft_ms 23.221477999999998
			max_ttft_ms 24.198391`,
	}, {
		name: "E13 passes without time", trace: threeRequests, workers: 2, engine: `{"block_size":64,"speedup_ratio":1e12}`,
		want: `
			1: w0 0.0|same|0|0.0, 0.0, 0.0
			2: w1 0.0|same|0|0.0, 0.0
			3: w0 10.0|same|64|10.0, 10.0`,
		report: `
			duration_ms 10.0
			request_throughput_rps 300.0
			output_throughput_tok_s 700.0
			prefix_cache_reused_ratio 0.2
			max_ttft_ms 0.0
			max_itl_ms 0.0
			max_e2e_latency_ms 0.0
			max_output_token_throughput_per_user 0.0`,
	}, {
		name: "E15 cache seen when the first prompt is done", workers: 2, router: "{}", trace: twice(39),
		report: `
			prefix_cache_reused_ratio 0.5
			max_ttft_ms 38.283432
			duration_ms 160.05568599999998`,
	}, {
		name: "E15 cache seen from the start of the pass", workers: 2, router: "{}", trace: twice(5),
		report: `
			prefix_cache_reused_ratio 0.5
			max_ttft_ms 39.079445
			duration_ms 154.262966`,
	}}
}

// twice returns a trace of one long prompt at 0 and again at the instant at.
func twice(at int) string {
	const line = `{"timestamp":%d,"input_length":1024,"output_length":20,"hash_ids":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}` + "\n"
	return fmt.Sprintf(line+line, 0, at)
}

func workloadExamples() []example {
	return []example{{
		name:      "E8 plain synthetic",
		synthetic: &loadgen.Synthetic{Requests: 3, Input: 100, Output: 3, Interval: 10, Turns: 1},
		want: `
			s0t0: w0 0.0|same|0|23.770567000000003, 49.085291000000005, 54.84506700000001
			s1t0: w0 10.0|23.770567000000003|0|49.085291000000005, 54.84506700000001, 60.59825200000001
			s2t0: w0 20.0|23.770567000000003|0|49.085291000000005, 54.84506700000001, 60.59825200000001`,
		report: `
			duration_ms 60.59825200000001
			median_ttft_ms 29.085291000000005
			max_ttft_ms 39.085291000000005
			median_tpot_ms 5.756480500000002
			max_tpot_ms 15.537250000000002
			request_throughput_rps 49.50637850081879
			prefix_cache_reused_ratio 0.0`,
	}, {
		name: "E9 session synthetic",
		synthetic: &loadgen.Synthetic{
			Requests: 2, Input: 200, Output: 2, Interval: 30, Turns: 2, Delay: 15, SharedRatio: 0.5, Groups: 2,
		},
		want: `
			s0t0: w0 0.0|same|0|25.308132999999998, 31.061318
			s1t0: w0 29.999999999999996|31.061318|128|54.41131300000001, 77.76789900000001
			s0t1: w0 46.061318|54.41131300000001|128|77.76789900000001, 83.52108400000002
			s1t1: w0 92.76789900000001|same|128|116.11789400000002, 121.87107900000002`,
		report: `
			duration_ms 121.87107900000002
			prefix_cache_reused_ratio 0.48
			max_ttft_ms 31.706581000000014
			median_itl_ms 5.753185000000002
			p90_itl_ms 23.356586000000007`,
	}, {
		name: "E10 agentic", agentic: true, concurrency: 1,
		trace: `{"num_turns":2,"input_prompt_length":100,"assistant_response_length":[10,20],"tool_call_output_length":[30,40],"tool_call_latency":[0.5,1.25],"final_assistant_response_length":5}`,
		report: `
			num_requests 3
			total_input_tokens 440
			total_output_tokens 35
			duration_ms 2004.508212000001
			prefix_cache_reused_ratio 0.43636363636363634
			min_ttft_ms 23.349995000000035
			max_ttft_ms 23.770567000000003
			max_e2e_latency_ms 132.65557300000103`,
	}, {
		name: "E11a decimals as the reference reads them",
		trace: `
			{"timestamp":0,"output_length":1,"hash_ids":[1]}
			{"timestamp":1928.4445845629277,"output_length":1,"hash_ids":[2]}`,
		report: `
			duration_ms 1951.6627655629277
			max_ttft_ms 23.218181000000186
			max_ttst_ms 0.0
			max_tpot_ms 0.0
			max_itl_ms 0.0
			max_output_token_throughput_per_user 0.0`,
	}, {
		name: "E11b prompts cut short, ids of 32 bits", block: 512,
		trace: `
			{"timestamp":0,"input_length":5000,"output_length":1,"hash_ids":[7,8]}
			{"created_time":100,"input_tokens":1000,"output_tokens":1,"hash_ids":[4294967303,4294967304]}`,
		report: `
			total_input_tokens 2024
			duration_ms 122.902151
			prefix_cache_reused_ratio 0.4743083003952569
			max_ttft_ms 38.283432
			min_ttft_ms 22.902151000000003`,
	}}
}
