package measured

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// unmodelled is a setting that the simulated scheduler does not support for some values.
type unmodelled struct {
	key string
	// is reports whether a value is unsupported. If is is nil, all values except none, false and 0 are unsupported.
	is func(v any) bool
	// want is the supported value. For a setting that only gets a note, want is the reason.
	want string
	note bool
}

// isSet reports whether a value is present and not none, false or 0.
func isSet(v any) bool { return v != nil && v != false && v != 0.0 && v != "" && v != "None" }

// isAboveOne reports whether a value is a number above 1.
func isAboveOne(v any) bool { x, ok := v.(float64); return ok && x > 1 }

// isNoneOf returns a test for texts that differ from all names. Only the last part of a dotted path counts.
func isNoneOf(names ...string) func(any) bool {
	return func(v any) bool {
		text, ok := v.(string)
		return ok && isSet(v) && !slices.Contains(names, path.Ext("." + text)[1:])
	}
}

// listUnmodelled returns the settings of vLLM that are not supported. All other settings are supported, or they
// affect requests only through fitted parameters.
func listUnmodelled() []unmodelled {
	const stages = "must be 1: one engine's passes overlap"
	return []unmodelled{
		{"pipeline_parallel_size", isAboveOne, stages, false},
		{"decode_context_parallel_size", isAboveOne, stages, false},
		{"prefill_context_parallel_size", isAboveOne, stages, false},
		{"speculative_config", nil, "must be none: passes that verify drafts give requests several tokens", false},
		{"num_lookahead_slots", nil, "must be none: passes that verify drafts give requests several tokens", false},
		{"kv_transfer_config", nil, "must be none: KV blocks come from elsewhere, or go there", false},
		{"ec_transfer_config", nil, "must be none: encoders run elsewhere", false},
		{"kv_offloading_size", nil, "must be none: KV blocks come from host memory", false},
		{"sliding_window", nil, "must be none: requests give up blocks that no layer reads", false},
		{"mamba_cache_mode", isNoneOf("none"), "must be none: states of layers are cached in separate blocks", false},
		{"policy", isNoneOf("fcfs"), "must be fcfs", false},
		{"scheduling_policy", isNoneOf("fcfs"), "must be fcfs", false},
		{"scheduler_cls", isNoneOf("Scheduler", "AsyncScheduler"), "must be vLLM's own scheduler", false},
		{"num_scheduler_steps", isAboveOne, "must be 1: a request gets several tokens before the next request is scheduled", false},
		{"enable_dbo", nil, "must be off: passes are not cut in two", false},
		{"ubatch_size", isAboveOne, "must be off: passes are not cut in two", false},
		{"runner", isNoneOf("auto", "generate"), "must be generate: no tokens come out", false},
		{"runner_type", isNoneOf("auto", "generate"), "must be generate: no tokens come out", false},
		{"task", isNoneOf("auto", "generate"), "must be generate: no tokens come out", false},
		{"is_encoder_decoder", nil, "must be a decoder alone: passes of encoders are not simulated", false},
		{"enable_lora", nil, "which adapter a request asks for is not told, and none waits for room for its adapter", true},
		{"lora_config", nil, "which adapter a request asks for is not told, and none waits for room for its adapter", true},
		{"multimodal_config", nil, "input_toks are taken to be text, which needs no pass of an encoder", true},
		{"kv_sharing_fast_prefill", nil, "prompts are taken to go through all layers", true},
		{"data_parallel_external_lb", nil, "an external load balancer chose the engine of a request: it is taken to choose like vLLM's front end", true},
		{"data_parallel_hybrid_lb", nil, "an external load balancer chose the engine of a request: it is taken to choose like vLLM's front end", true},
		{"stream_interval", isAboveOne, "answers come in pieces of several tokens, and times between tokens are those of pieces", true},
	}
}

// refuseUnmodelled adds refusals for settings that the simulated scheduler does not support. For settings with a
// reasonable assumption, refuseUnmodelled adds notes.
func (s *Settings) refuseUnmodelled(t tree) {
	for _, u := range listUnmodelled() {
		v, is := t.find(u.key), u.is
		if is == nil {
			is = isSet
		}
		if v == nil || !is(v) || u.key == "sliding_window" && t.truth("disable_sliding_window", false) {
			continue
		}
		text := fmt.Sprintf("%s is %s: %s", u.key, describeValue(v), u.want)
		switch {
		case !u.note:
			s.refusals = append(s.refusals, strings.Replace(text, ": must be", ", must be", 1))
		case !slices.Contains(s.Notes, text):
			s.AddNote("%s", text)
		}
	}
	s.noteWindows()
}

// noteWindows adds a note if some layers of a known model read only a part of a sequence.
func (s *Settings) noteWindows() {
	if m, err := FindModel(s.Model); err == nil && m.WindowLayers > 0 {
		s.AddNote("%d layers of %s attend to windows of %d tokens: their KV blocks are taken to be kept, as those of the remaining layers are", m.WindowLayers, m.Name, m.Window)
	}
}

// describeValue returns a short text for the value of a setting.
func describeValue(v any) string {
	switch v := v.(type) {
	case string:
		if len(v) < 40 {
			return strconv.Quote(v)
		}
	case bool, float64:
		return fmt.Sprint(v)
	}
	return "set"
}
