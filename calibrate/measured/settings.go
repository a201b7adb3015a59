package measured

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
)

// Settings holds the settings of a server that matter to its scheduler.
type Settings struct {
	timing.Engine
	PrefixCaching     bool
	ChunkedPrefill    bool
	ReserveWhole      bool
	LongPrefillTokens int
	Graphs            []int // sizes of captured graphs, increasing; none: passes run without graphs
	GraphMode         timing.GraphMode
	// DataParallel is the number of engines, at least 1. Each engine has a separate scheduler and KV cache. In
	// Lockstep, all passes start and end together because of the layers of experts.
	DataParallel int
	Lockstep     bool
	Kind         string  // kind of engine: vllm, sglang or trtllm
	kvBits       float64 // of a value in the KV cache; 0: 16
	Quantized    bool    // the weights have another type than in the model's definition
	Router       string  // file of the router before the servers; "": there is none
	Pods         int     // number of servers that share the requests of a router, at least 1

	Notes []string // assumptions
	// Estimated is true if Blocks is an estimate from the blocks in use. An estimate must be fitted.
	Estimated bool
	// Open holds the settings that are unknown and that the run must decide.
	Open  []Opening
	flags []Flag // of a replay, for settings without a field above
	// unapplied holds requested settings that a replay does not support.
	unapplied []string
	args      any      // arguments of a server other than vLLM
	missing   []string // settings that are absent and cannot be assumed
	refusals  []string // settings that are not modelled
}

// NotModelledError reports a run that cannot be simulated.
type NotModelledError struct{ Reasons []string }

func (e *NotModelledError) Error() string {
	return "not modelled: " + strings.Join(e.Reasons, "; ")
}

// checkModelled returns an error if the server cannot be simulated.
func (s *Settings) checkModelled() error {
	all := append(slices.Clone(s.missing), s.refusals...)
	if len(all) > 0 {
		return &NotModelledError{all}
	}
	return nil
}

// tree is a JSON object with unknown content.
type tree map[string]any

// at returns the value at a path, nil if there is none.
func (t tree) at(path ...string) any {
	var v any = map[string]any(t)
	for _, key := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}

// settingPlaces returns the objects that may have a setting, in the order of precedence. Resolved settings come
// before requested ones.
func settingPlaces() [][]string {
	return [][]string{
		{"resolved_config", "scheduler_config"}, {"resolved_config", "cache_config"}, {"resolved_config", "parallel_config"},
		{"resolved_config", "model_config"}, {"resolved_config", "compilation_config"}, {"resolved_config"},
		{"kv_cache"}, {"engine_kwargs"}, {"engine_kwargs", "compilation_config"}, {"engine_args"}, {"engine_args", "compilation_config"},
		{"server_args"}, {},
	}
}

// find returns the first value of a key that is not null.
func (t tree) find(key string) any {
	for _, p := range settingPlaces() {
		if v := t.at(append(p, key)...); v != nil {
			return v
		}
	}
	return nil
}

// number returns a positive whole number, or unset if there is none.
func (t tree) number(key string, unset int) int {
	if v, _ := t.find(key).(float64); int(v) > 0 {
		return int(v)
	}
	return unset
}

func (t tree) truth(key string, unset bool) bool {
	if v, ok := t.find(key).(bool); ok {
		return v
	}
	return unset
}

func (t tree) text(key string) string {
	s, _ := t.find(key).(string)
	return s
}

// fill adds known settings that the tree lacks. fill also replaces the name of an unknown model.
func (t tree) fill(known map[string]any) {
	for key, value := range known {
		switch {
		case key == "device_name" && t.at("hardware", key) == nil:
			all, _ := t["hardware"].(map[string]any)
			if all = maps.Clone(all); all == nil {
				all = map[string]any{}
			}
			all[key] = value
			t["hardware"] = all
		case key == "model" && !isKnownModel(t.text(key)):
			for _, p := range settingPlaces() { // the last place is t itself
				if m, ok := t.at(p...).(map[string]any); ok {
					delete(m, key)
				}
			}
			t[key] = value
		case key != "device_name" && t.find(key) == nil:
			t[key] = value
		}
	}
}

// readSettings reads the settings of meta.json. The maps in known have settings that meta.json lacks.
func readSettings(path string, known []map[string]any) (Settings, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Settings{}, err
	}
	var t tree
	if err := json.Unmarshal(text, &t); err != nil {
		return Settings{}, fmt.Errorf("%s: %w", path, err)
	}
	if t == nil {
		t = tree{}
	}
	for _, k := range known {
		t.fill(k)
	}
	return newSettings(t), nil
}

// newSettings returns the settings in a tree.
func newSettings(t tree) Settings {
	s := Settings{Pods: t.number("pods", 1), DataParallel: 1}
	s.Model, s.Version = t.text("model"), t.text("vllm_version")
	s.GPU, _ = t.at("hardware", "device_name").(string)
	s.Quantized = t.text("quantization") != ""
	s.kvBits, _ = hardware.DtypeBits(cmp.Or(t.text("cache_dtype"), t.text("kv_cache_dtype"), "auto")) // the usual number for an unknown type
	switch s.Kind = t.kind(); s.Kind {
	case timing.SGLang:
		s.readSGLang(t)
		return s
	case timing.TRTLLM:
		s.readTRTLLM(t)
		return s
	}
	s.readModelled(t)
	s.refuseUnmodelled(t)
	s.readReported(t)
	return s
}

// readModelled reads the settings that the simulated scheduler supports.
func (s *Settings) readModelled(t tree) {
	s.TensorParallel = t.number("tensor_parallel_size", 1)
	s.MaxSeqs = s.readNeeded(t, vllm.SeqsKey)
	s.MaxBatchedTokens = t.number("max_num_scheduled_tokens", s.readNeeded(t, vllm.TokensKey))
	s.BlockTokens = t.number("block_size", 16)
	if s.BlockTokens < 2 || s.BlockTokens&(s.BlockTokens-1) != 0 {
		s.refusals = append(s.refusals, fmt.Sprintf("block_size is %d, must be a power of two", s.BlockTokens))
	}
	s.Blocks = t.number("num_gpu_blocks_override", t.number("num_gpu_blocks", t.number("num_kv_tokens", 0)/s.BlockTokens))
	s.PrefixCaching = t.truth("enable_prefix_caching", true)
	s.ChunkedPrefill = t.truth("enable_chunked_prefill", true)
	s.ReserveWhole = t.truth("scheduler_reserve_full_isl", true)
	if s.LongPrefillTokens = t.number("long_prefill_token_threshold", 0); t.number("max_num_partial_prefills", 1) > 1 && s.LongPrefillTokens == 0 {
		s.LongPrefillTokens = t.number("max_model_len", 0) / 25 // vLLM's value in this case
	}
	if v, ok := t.find("async_scheduling").(bool); ok {
		s.Async = v
	} else {
		s.Async = true
		s.Open = append(s.Open, Opening{
			"async_scheduling is not told", "on, as is vLLM's default", "off, with which the run can be fitted better",
			func(s *Settings) { s.Async = false },
		})
	}
	s.readParallel(t)
	s.readGraphs(t)
}

// readParallel reads the number of engines. A number of blocks from the front end is the sum over all engines.
func (s *Settings) readParallel(t tree) {
	n := t.number("data_parallel_size", 1)
	if s.DataParallel = n; n < 2 {
		return
	}
	s.Lockstep = t.truth("enable_expert_parallel", false) || t.truth("is_moe_model", false)
	how := "each at its own pace"
	if s.Lockstep {
		how = "in lockstep"
	}
	s.AddNote("%d engines %s; which took which request is not told: the least 4·waiting + running, as vLLM's front end has it", n, how)
	if total := s.Blocks; total > 0 {
		s.Blocks = total / n
		s.Open = append(s.Open, Opening{
			fmt.Sprintf("num_gpu_blocks is %d", total), fmt.Sprintf("of all %d engines", n),
			"of each engine, with which the run can be fitted better", func(s *Settings) { s.Blocks = total },
		})
	}
}

// Opening is a setting with a chosen value and an alternative, which may be better.
type Opening struct {
	What, Chosen, Instead string // text
	Other                 func(*Settings)
}

// AddNote adds a line to Notes. The arguments are those of fmt.Sprintf.
func (s *Settings) AddNote(format string, args ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
}

func (s *Settings) readNeeded(t tree, key string) int {
	n := t.number(key, 0)
	if n < 1 {
		s.missing = append(s.missing, key+" is missing, expected it in engine_kwargs or resolved_config")
	}
	return n
}

// gpuOf returns the GPU at the start of a run's name, such as GPU_MODEL, or "" if there is none.
func gpuOf(name string) string {
	gpu, _, _ := strings.Cut(name, "_")
	if _, err := hardware.FindGPU(gpu, nil); err == nil {
		return gpu
	}
	return ""
}

// Engines returns the number of engines that share the requests.
func (s *Settings) Engines() int { return max(s.DataParallel, 1) * max(s.Pods, 1) }

// ForSimilar returns the settings of a server that also apply to a similar server, by the keys of meta.json.
func (s *Settings) ForSimilar() map[string]any {
	if !s.IsVLLM() {
		known := map[string]any{engineKey: s.Kind, "server_args": s.args}
		if s.GPU != "" {
			known["device_name"] = s.GPU
		}
		return known
	}
	known := map[string]any{
		"model": s.Model, "vllm_version": s.Version, "tensor_parallel_size": float64(s.TensorParallel), vllm.SeqsKey: float64(s.MaxSeqs),
		vllm.TokensKey: float64(s.MaxBatchedTokens), "block_size": float64(s.BlockTokens), "async_scheduling": s.Async,
		"enforce_eager": len(s.Graphs) == 0, "enable_prefix_caching": s.PrefixCaching, "enable_chunked_prefill": s.ChunkedPrefill, "pods": float64(s.Pods),
	}
	if len(s.Graphs) > 0 {
		var sizes []any
		for _, n := range s.Graphs {
			sizes = append(sizes, float64(n))
		}
		known["cudagraph_capture_sizes"], known["cudagraph_mode"] = sizes, string(cmp.Or(s.GraphMode, "FULL_AND_PIECEWISE"))
	}
	if s.Blocks > 0 {
		known["num_gpu_blocks"] = float64(s.Blocks * max(s.DataParallel, 1))
	}
	if s.GPU != "" {
		known["device_name"] = s.GPU
	}
	return known
}

// Servers returns the known facts about the servers of a run, by the keys of meta.json.
func (m *Run) Servers() map[string]any { return m.Settings.ForSimilar() }
