package measured

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
	"github.com/replay-llm/replay/schema"
)

// askedKey is the key of the arguments in a server's start command, if the log has them separately from the resolved
// ones.
const askedKey = "asked_arguments"

// ofHardware returns the flags that have an effect only with a GPU or with a profile.
func ofHardware() []string {
	return []string{"tp", "dp", "pp", "ep", "graphs", "quantization", "kv-cache-dtype", "gpu-memory-utilization", "max-model-len"}
}

// NeedsGPU reports whether a flag has an effect only with --gpu.
func (f *Flag) NeedsGPU() bool { return slices.Contains(ofHardware(), f.Name) }

// readReported reads the arguments of a vLLM server that correspond to flags of a replay. readReported also records
// requested arguments that a replay does not support.
func (s *Settings) readReported(t tree) {
	add := func(name, value string) { s.flags = append(s.flags, Flag{name, value}) }
	if n := t.number("pipeline_parallel_size", 1); n > 1 {
		add("pp", strconv.Itoa(n))
	}
	if n := s.TensorParallel * max(s.DataParallel, 1); t.truth("enable_expert_parallel", false) && n > 1 {
		add("ep", strconv.Itoa(n))
	}
	switch {
	case len(s.Graphs) == 0:
		add("graphs", "none")
	case s.GraphMode == "PIECEWISE":
		add("graphs", "piecewise")
	}
	if share, ok := t.find("gpu_memory_utilization").(float64); ok && share > 0 && share <= 1 {
		add("gpu-memory-utilization", strconv.FormatFloat(share, 'f', -1, 64))
	}
	if n := t.number("max_model_len", 0); n > 0 {
		add("max-model-len", strconv.Itoa(n))
	}
	s.readTypes(t, add)
	if policy := t.text("scheduling_policy"); policy != "" && policy != "fcfs" {
		add("scheduling-policy", policy)
	}
	var rules []string
	if async, ok := t.find("async_scheduling").(bool); ok && !async {
		rules = append(rules, `"two_in_flight":false`)
	}
	if !s.ReserveWhole {
		rules = append(rules, `"reserve_whole":false`)
	}
	if s.LongPrefillTokens > 0 {
		rules = append(rules, fmt.Sprintf(`"long_prefill_tokens":%d`, s.LongPrefillTokens))
	}
	if len(rules) > 0 {
		add("extra-engine-args", `{"scheduler_rules":{`+strings.Join(rules, ",")+`}}`)
	}
	s.noteUnapplied(t)
}

// readTypes reads the types of weights and KV cache. A type that the flags do not support is recorded as not applied.
func (s *Settings) readTypes(t tree, add func(name, value string)) {
	for _, x := range []struct {
		flag  string
		value string
		known []string
	}{
		{"quantization", t.text("quantization"), hardware.Dtypes()},
		{"kv-cache-dtype", t.text("kv_cache_dtype") + t.text("cache_dtype"), []string{"bfloat16", "fp8"}},
	} {
		value := strings.TrimSuffix(strings.TrimSuffix(x.value, "_e4m3"), "_e5m2")
		switch {
		case value == "" || value == "auto" || value == "None":
		case slices.Contains(x.known, value):
			add(x.flag, value)
		default:
			s.unapplied = append(s.unapplied, fmt.Sprintf("%s %s", x.flag, x.value))
		}
	}
}

// noteUnapplied records the requested arguments that a replay does not support.
func (s *Settings) noteUnapplied(t tree) {
	asked := map[string]bool{}
	for _, place := range []string{"engine_kwargs", "engine_args"} {
		all, _ := t.at(place).(map[string]any)
		for key, value := range all {
			asked[key] = asked[key] || isSet(value)
		}
	}
	names, _ := t.at(askedKey).([]string)
	for _, key := range names {
		asked[key] = true
	}
	applied, logged := appliedArguments(), schema.Logs(append(hardware.Settings(), engineargs.Rows()...), "vllm")
	for _, key := range slices.Sorted(maps.Keys(asked)) {
		if asked[key] && !slices.Contains(applied, key) && !slices.ContainsFunc(logged, func(l schema.Logged) bool { return l.Name == key }) && !slices.ContainsFunc(listUnmodelled(), func(u unmodelled) bool { return u.key == key }) {
			s.unapplied = append(s.unapplied, key)
		}
	}
	if sizes, ok := t.find("cudagraph_capture_sizes").([]any); ok && len(s.Graphs) > 0 && len(sizes) > 0 && !slices.Equal(s.Graphs, timing.DefaultGraphs(s.MaxSeqs)) {
		s.unapplied = append(s.unapplied, "cudagraph_capture_sizes")
	}
}

// appliedArguments returns two kinds of arguments of vLLM: supported arguments without a row for the log, and
// arguments that do not affect any request.
func appliedArguments() []string {
	return strings.Fields(`num_gpu_blocks num_gpu_blocks_override max_num_scheduled_tokens enable_expert_parallel enforce_eager cudagraph_mode
		cudagraph_capture_sizes compilation_config cache_dtype scheduling_policy async_scheduling scheduler_reserve_full_isl long_prefill_token_threshold max_num_partial_prefills
		model model_tag served_model_name tokenizer tokenizer_mode revision tokenizer_revision trust_remote_code download_dir load_format dtype seed
		host port root_path api_key uvicorn_log_level disable_log_requests disable_log_stats enable_log_requests disable_uvicorn_access_log
		generation_config chat_template enable_auto_tool_choice tool_call_parser reasoning_parser kv_events_config prefix_caching_hash_algo
		enable_prompt_tokens_details distributed_executor_backend otlp_traces_endpoint`)
}

// Flag is a flag of a replay with its value.
type Flag struct{ Name, Value string }

// Flags returns the known facts about the server as flags.
func (s *Settings) Flags() []Flag {
	if !s.IsVLLM() {
		return s.addCluster(slices.Clone(s.flags))
	}
	if s.MaxSeqs == 0 && s.Blocks == 0 { // there is no meta.json
		return s.addCluster(nil)
	}
	var all []Flag
	for _, f := range []struct {
		name         string
		value, usual int
	}{
		{"tp", s.TensorParallel, 1}, {"dp", s.DataParallel, 1}, {"num-gpu-blocks", s.Blocks, 0}, {"block-size", s.BlockTokens, 0},
		{"max-num-seqs", s.MaxSeqs, 0}, {"max-num-batched-tokens", s.MaxBatchedTokens, 0},
	} {
		if f.value > f.usual {
			all = append(all, Flag{f.name, fmt.Sprint(f.value)})
		}
	}
	if s.Version != "" {
		all = append(all, Flag{"scheduler-profile", releases.RulesName(s.Version)})
	}
	all = append(s.addCluster(all), Flag{"enable-prefix-caching", fmt.Sprint(s.PrefixCaching)}, Flag{"enable-chunked-prefill", fmt.Sprint(s.ChunkedPrefill)})
	return append(all, s.flags...)
}

// addCluster adds the flags for the number of servers and for their router.
func (s *Settings) addCluster(all []Flag) []Flag {
	if s.Pods > 1 {
		all = append(all, Flag{"workers", fmt.Sprint(s.Pods)})
	}
	if s.Router != "" {
		all = append(all, Flag{"endpoint-picker", s.Router})
	}
	return all
}

// NoteUnapplied adds a note about the settings of the run that its replay does not apply. The note lists settings
// that a replay does not support, and the given flags.
func (m *Run) NoteUnapplied(flags []string) {
	all := append(slices.Clone(m.Settings.unapplied), flags...)
	text := "settings of the run that do not apply to the replay: " + strings.Join(all, ", ")
	if len(all) > 0 && !slices.Contains(m.Settings.Notes, text) {
		m.Settings.AddNote("%s", text)
	}
}
