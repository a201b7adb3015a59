package schemas

import (
	"strings"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/report/parquet"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/schema"
)

// group is keys of a report with one meaning, which some replays write.
type group struct {
	keys string // separated by blanks
	with string // when a replay writes them
	text string
}

// listMembers returns the members of entries of a report that are objects, by the key of the entry.
func listMembers() map[string][]group {
	return map[string][]group{
		"online": {
			{"partial", "", "the run ended early"},
			{"cancelled", "", "requests that had arrived and were not done when it did"},
			{"late_arrival_p50_ms late_arrival_p99_ms", "", "how late requests arrived, against the trace"},
			{"pass_overshoot_p50_ms pass_overshoot_p99_ms", "", "how much longer than planned passes took"},
			{"slipped_ms", "", "by how much the worst worker fell behind for good: passes that ended 25 ms late and more"},
			{"barrier_timeouts", "", "timeouts of the barrier: waits of 20 ms for other workers at the same instant"},
			{"timer_bound", "", "passes take less than 2 ms on average: latencies depend more on the machine's timers than on the engines"},
			{"trusted", "", "false: passes ended late by more than 3 % of their length on average, a worker fell behind by more than 1 % of the run, or the barrier timed out"},
			{"errors", "with --mode cluster", "requests with an error, by type, and the first hundred texts"},
		},
		"regret": {
			{"decisions routed", "", "decisions of the sample, and of the replay"},
			{"workers horizon_ms", "", "workers that were tried at each, and the time after a decision in which compared requests arrive"},
			{"own_ttft own_e2e all_ttft all_e2e", "",
				"of the request itself, and means over all compared requests: best_decisions, of which no other would have given less, and the regret of the sample, mean_ms, p99_ms, max_ms"},
			{"lost_to", "", "what the worker with the least TTFT had that the chosen one had not: more_cached, fewer_requests, both, neither, each with decisions and mean_ms of TTFT"},
		},
	}
}

// listGroups returns the keys that only some reports have.
func listGroups() []group {
	return []group{
		{"partial", "with --until", "whether requests are left"},
		{"online", "with --mode online, --mode cluster", "how close the run came to its planned instants"},
		{"lost_requests lost_tokens retries migrations recomputed_tokens", "with --faults, --retry, --client-timeout", "requests of dead workers, or with a failed last attempt; their tokens"},
		{"client_attempts client_timeouts", "with --retry, --client-timeout", "attempts and timeouts of clients"},
		{"shed_requests", "with --admission", "requests that rules shed"},
		{"classes class_fairness", "with classes", "names of the classes; Jain's index of their rates of answer tokens"},
		{"tasks completed_tasks mean_task_latency_ms median_task_latency_ms p90_task_latency_ms p99_task_latency_ms max_task_latency_ms", "with graphs", "tasks and their latencies"},
		{"mean_task_wait_ms mean_task_tool_ms mean_task_queue_ms mean_task_prefill_ms mean_task_decode_ms", "with graphs", "mean parts of the critical paths of tasks"},
		{"mean_task_parallelism", "with graphs", "total time of the requests of a task by its latency"},
		{"decode_prefills", "with two pools", "prompts that decode workers computed"},
		{"kv_transfers kv_transfer_gb mean_kv_transfer_wait_ms", "with two pools", "transfers between the pools, and their delay by sharing links"},
		{"mean_prefill_hold_ms mean_decode_admission_wait_ms", "with two pools", "time that prefill workers hold the blocks of a computed prompt; wait for blocks on the decode worker"},
		{"regret", "with --regret", "what other choices of the router would have saved"},
		{"warm_blocks warm_workers warm_blocks_evicted warm_workers_unused", "with --warm-caches", "KV blocks cached at the start, workers with some, blocks without room, workers of the file that the run does not have"},
		{"worker_hours gpu_hours worker_cost scale_ups scale_downs", "with --autoscale", "time and cost of workers, and actions; with two pools sums"},
		{"least_workers mean_workers most_workers", "with --autoscale", "numbers of workers"},
		{"drain_kills drain_lost_requests drain_retried_requests drain_migrated_requests", "with a drain timeout", "workers killed while they left, and their requests"},
		{"quantile_error", "with --stream", "the largest relative error of quantiles"},
		{"dropped_zero_output_requests dropped_other_requests dropped_bad_rows", "if not 0", "rows that were not replayed: --zero-output drop, a rule of the format, --skip-bad"},
		{"rejected_requests rejected_by_max_model_len rejected_by_context_length rejected_by_unfit rejected_by_out_of_memory", "if not 0",
			"rejected requests, by reason; unfit: an idle engine could not run it; out_of_memory: SGLang aborted it while it ran; objectives count them as missed"},
		{"length_capped_requests length_capped_tokens", "if not 0", "answers that end at the longest sequence, and the missing tokens"},
		{"clipped_requests clipped_tokens", "with SGLang", "answers shortened to the size of the pool, and the missing tokens"},
		{"host_cache_reused_ratio host_cache_written_tokens host_cache_loaded_tokens", "with KV offload", "prompt tokens copied back from host memory, by total_input_tokens; for SGLang also the tokens copied"},
		{"dropped_kv_events", "with --event-buffer-max-size", "KV events that TensorRT-LLM's engines dropped"},
		{"readmissions readmitted_reused_ratio", "with vLLM with preemptions", "admissions after a preemption, and their cached share"},
		{"accepted_tokens_per_pass draft_acceptance_rate", "with speculative decoding", "tokens of a request in a pass that verifies drafts (vLLM's mean acceptance length); accepted drafts by drafts"},
		{"slo_met", "with --slo", "whether every statistic is within its limit, and enough requests met theirs"},
		{"slo_met_requests slo_attainment slo_attainment_target", "with --slo", "requests that met all limits of single requests, their share of the requests that arrived, and the required share (--slo-attainment)"},
		{"goodput_rps goodput_output_tok_s", "with --slo", "slo_met_requests and their answer tokens by duration"},
		{"stopped_early", "with --early-stop", "whether the cell of a sweep ended when it could no longer meet its objectives"},
		{"saturation", "with open loop",
			"stable; backlogged: a queue came and went; overloaded: it grew to the end; unsettled: fewer than 60 requests, or arrivals over less than three mean latencies"},
		{"saturation_test", "with open loop",
			"mean waits of the first, last and longest twelfth, their trend (Mann-Kendall, in standard deviations), the span of arrivals and the mean latency"},
		{"assumptions", "except with --compat", "what was not measured: sources of pass times, KV cache, rules, handoffs, the kind of ITL"},
		{"window_from_ms window_to_ms window_requests_before window_requests_after window_finished_requests window_input_tokens window_output_tokens", "with --window", "the window and its requests"},
		{"digest", "with --digest", "identifies the run"},
	}
}

// listPatterns returns the keys that contain names of the run.
func listPatterns() schema.Shape {
	with := func(text string) schema.Shape { return schema.Shape{"description": text} }
	return schema.Shape{
		"^class_.+_(requests|completed_requests|(mean|median|p90|p99|max)_(ttft|tpot|e2e_latency)_ms|answer_tok_s|attainment|goodput_rps)$": with("a value of one class (with classes)"),
		"^slo_.+_attainment$": with("the share of requests that met a limit of single requests (with --slo)"),
		"^slo_.+_met$":        with("whether a statistic met its limit (with --slo)"),
		"^slo_.+_ms$":         with("a limit (with --slo)"),
		"^(p98|p99\\.9)_":     with("a statistic that only objectives require (with --slo)"),
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
