package schemas

import (
	"strings"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/report/parquet"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/schema"
)

// group holds report keys with the same description. Some replays write these keys.
type group struct {
	keys string // separated by blanks
	with string // when a replay writes them
	text string
}

// listMembers returns the members of report values that are objects, by the key of the value.
func listMembers() map[string][]group {
	return map[string][]group{
		"online": {
			{"partial", "", "the run ended early"},
			{"cancelled", "", "requests in flight when the run ended early"},
			{"late_arrival_p50_ms late_arrival_p99_ms", "", "delay of arrivals compared with the trace, in ms: median, p99"},
			{"pass_overshoot_p50_ms pass_overshoot_p99_ms", "", "time that passes took longer than planned, in ms: median, p99"},
			{"slipped_ms", "", "lasting delay of the worst worker, in ms: the sum over passes that ended at least 25 ms late"},
			{"barrier_timeouts", "", "number of timeouts of the barrier, each a wait of 20 ms for other workers at the same instant"},
			{"timer_bound", "", "whether passes take less than 2 ms on average, so that latencies depend more on the timers of the machine than on the engines"},
			{"trusted", "", "whether the results can be trusted; false if passes ended late by more than 3 % of their length on average, a worker fell behind by more than 1 % of the run, or the barrier timed out"},
			{"errors", "with --mode cluster", "number of failed requests by type of error, and the first 100 error messages"},
		},
		"regret": {
			{"decisions routed", "", "number of routing decisions in the sample, and in the replay"},
			{"workers horizon_ms", "", "number of workers tried per decision, and the time after a decision in which compared requests arrive, in ms"},
			{"own_ttft own_e2e all_ttft all_e2e", "",
				"regret of the sample for the routed request (own) and as a mean over all compared requests (all): best_decisions (no other worker gives a lower latency), mean_ms, p99_ms, max_ms"},
			{"lost_to", "", "advantage of the worker with the lowest TTFT over the chosen worker: more_cached, fewer_requests, both or neither, each with decisions and mean_ms of TTFT"},
		},
	}
}

// listGroups returns the keys that only some reports contain.
func listGroups() []group {
	return []group{
		{"partial", "with --until", "whether requests were unfinished at the end"},
		{"online", "with --mode online, --mode cluster", "timing quality of a run in real time"},
		{"lost_requests lost_tokens retries migrations recomputed_tokens", "with --faults, --retry, --client-timeout", "requests and tokens that were lost with a failed worker or a failed last attempt, and how they were handled"},
		{"client_attempts client_timeouts", "with --retry, --client-timeout", "number of attempts of clients, and of attempts that timed out"},
		{"shed_requests", "with --admission", "number of requests that admission rules rejected"},
		{"classes class_fairness", "with classes", "names of the request classes; Jain's fairness index of their answer tokens per second"},
		{"tasks completed_tasks mean_task_latency_ms median_task_latency_ms p90_task_latency_ms p99_task_latency_ms max_task_latency_ms", "with graphs", "number of tasks, and statistics of task latency in ms"},
		{"mean_task_wait_ms mean_task_tool_ms mean_task_queue_ms mean_task_prefill_ms mean_task_decode_ms", "with graphs", "mean time in this part of the critical path of a task, in ms"},
		{"mean_task_parallelism", "with graphs", "mean parallelism of a task: total time of its requests divided by its latency"},
		{"decode_prefills", "with two pools", "number of prompts that decode workers computed"},
		{"kv_transfers kv_transfer_gb mean_kv_transfer_wait_ms", "with two pools", "number and size of KV transfers from prefill to decode workers, and their mean delay by shared links"},
		{"mean_prefill_hold_ms mean_decode_admission_wait_ms", "with two pools", "mean time that a prefill worker keeps the KV blocks of a computed prompt; mean wait for KV blocks on the decode worker"},
		{"regret", "with --regret", "latency that other choices of the router would have saved"},
		{"warm_blocks warm_workers warm_blocks_evicted warm_workers_unused", "with --warm-caches", "KV blocks cached at the start; workers that start with cached blocks; blocks of the file that did not fit; workers of the file that the run does not have"},
		{"worker_hours gpu_hours worker_cost scale_ups scale_downs", "with --autoscale", "hours and cost of workers, and number of scaling actions; with two pools the sums of both"},
		{"least_workers mean_workers most_workers", "with --autoscale", "minimum, mean and maximum number of workers"},
		{"drain_kills drain_lost_requests drain_retried_requests drain_migrated_requests", "with a drain timeout", "workers killed at the drain timeout, and what became of their requests"},
		{"quantile_error", "with --stream", "maximum relative error of quantiles"},
		{"dropped_zero_output_requests dropped_other_requests dropped_bad_rows", "if not 0", "rows of the trace that were dropped: by --zero-output drop, by a rule of the format, by --skip-bad"},
		{"rejected_requests rejected_by_max_model_len rejected_by_context_length rejected_by_unfit rejected_by_out_of_memory", "if not 0",
			"number of rejected requests, by reason; unfit: not even an idle engine can run the request; out_of_memory: SGLang aborted the running request. Rejected requests count as missed objectives"},
		{"length_capped_requests length_capped_tokens", "if not 0", "number of answers that were cut at the maximum sequence length, and of tokens cut"},
		{"clipped_requests clipped_tokens", "with SGLang", "number of answers that were cut to the size of the KV pool, and of tokens cut"},
		{"host_cache_reused_ratio host_cache_written_tokens host_cache_loaded_tokens", "with KV offload", "prompt tokens loaded from host memory divided by total_input_tokens; for SGLang also the number of tokens written and loaded"},
		{"dropped_kv_events", "with --event-buffer-max-size", "number of KV events that TensorRT-LLM engines dropped"},
		{"readmissions readmitted_reused_ratio", "with vLLM with preemptions", "number of admissions after a preemption, and the cached share of their tokens"},
		{"accepted_tokens_per_pass draft_acceptance_rate", "with speculative decoding", "mean number of tokens that a request gains in a pass that verifies drafts (vLLM's mean acceptance length); accepted drafts divided by all drafts"},
		{"slo_met", "with --slo", "whether all objectives are met: each statistic within its limit, and slo_attainment at least its target"},
		{"slo_met_requests slo_attainment slo_attainment_target", "with --slo", "number of requests that met all per-request limits; their share of the requests that arrived; the required share (--slo-attainment)"},
		{"goodput_rps goodput_output_tok_s", "with --slo", "slo_met_requests, and their answer tokens, per second of the duration"},
		{"stopped_early", "with --early-stop", "whether the cell of a sweep ended early because it could no longer meet its objectives"},
		{"saturation", "with open loop",
			"state of the load: stable; backlogged (a queue grew and shrank); overloaded (a queue grew until the end); unsettled (fewer than 60 requests, or arrivals within less than three mean latencies)"},
		{"saturation_test", "with open loop",
			"values behind saturation: mean waits of the first, last and longest twelfth of the run, their trend (Mann-Kendall, in standard deviations), the time from first to last arrival and the mean latency"},
		{"assumptions", "except with --compat", "assumptions of the run: sources of pass times, KV cache size, scheduler rules, KV transfers, definition of ITL"},
		{"window_from_ms window_to_ms window_requests_before window_requests_after window_finished_requests window_input_tokens window_output_tokens", "with --window", "start and end of the window in ms, and number of requests and tokens in it, before it and after it"},
		{"digest", "with --digest", "hash of the inputs, the configuration and the times of each request"},
	}
}

// listPatterns returns patterns of keys that contain names of the run.
func listPatterns() schema.Shape {
	with := func(text string) schema.Shape { return schema.Shape{"description": text} }
	return schema.Shape{
		"^class_.+_(requests|completed_requests|(mean|median|p90|p99|max)_(ttft|tpot|e2e_latency)_ms|answer_tok_s|attainment|goodput_rps)$": with("a value of one request class (with classes)"),
		"^slo_.+_attainment$": with("share of requests that met a per-request limit (with --slo)"),
		"^slo_.+_met$":        with("whether a statistic met its limit (with --slo)"),
		"^slo_.+_ms$":         with("limit of an objective in ms (with --slo)"),
		"^(p98|p99\\.9)_":     with("a percentile that is reported only if an objective needs it (with --slo)"),
		"^(prefill|decode)_":  with("a value of one pool (with two pools)"),
	}
}

// reportShape returns the shape of a report.
func reportShape() schema.Shape {
	properties := schema.Shape{}
	for _, f := range new(collector.Report).Fields() {
		m, statistic := collector.Named(f.Key)
		text := m.Text
		if statistic != nil {
			text = statistic.Text + " of " + text
		}
		of := schema.TypeOf("number")
		of["description"] = strings.NewReplacer("`", "", "*", "").Replace(text) + " (" + m.Unit + ")"
		properties[f.Key] = of
	}
	addGroups(properties, listGroups())
	for key, members := range listMembers() {
		of := schema.Shape{}
		addGroups(of, members)
		properties[key].(schema.Shape)["properties"] = of
	}
	return schema.Shape{"type": "object", "properties": properties, "patternProperties": listPatterns()}
}

// addGroups adds the keys of groups to properties.
func addGroups(properties schema.Shape, groups []group) {
	for _, g := range groups {
		text := g.text
		if g.with != "" {
			text += " (" + g.with + ")"
		}
		for _, key := range strings.Fields(g.keys) {
			properties[key] = schema.Shape{"description": text}
		}
	}
}

// requestShape returns the shape of a row of the file of requests.
func requestShape() schema.Shape {
	types := map[parquet.Kind]string{parquet.Int64: "integer", parquet.Double: "number", parquet.Text: "string", parquet.Bool: "boolean"}
	properties := schema.Shape{}
	for _, c := range requests.Columns() {
		of := schema.TypeOf(types[c.Kind])
		if !c.Required {
			of = schema.TypeOf(types[c.Kind], "null")
		}
		of["description"] = c.Meaning
		properties[c.Name] = of
	}
	return schema.MappingOf(properties)
}
