package measured

import (
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
)

// vllmKind is the kind of a vLLM server.
const vllmKind = "vllm"

// rulesKey is the engine argument for the rules of a release.
const rulesKey = "scheduler_profile"

// nameOf returns the name of the engine of a kind.
func nameOf(kind string) string {
	return map[string]string{vllmKind: "vLLM", timing.SGLang: "SGLang", timing.TRTLLM: "TensorRT-LLM"}[kind]
}

// kind returns the kind of the server with these settings. The kind follows from keys that only one engine has.
func (t tree) kind() string {
	if t.text("vllm_version") != "" || t.find(vllm.SeqsKey) != nil {
		return vllmKind
	}
	own := []struct {
		kind string
		keys []string
	}{
		{timing.SGLang, []string{"sglang_version", "mem_fraction_static", "chunked_prefill_size", "max_running_requests"}},
		{timing.TRTLLM, []string{releaseKey, "max_batch_size", "kv_cache_config"}},
	}
	for _, o := range own {
		if slices.ContainsFunc(o.keys, func(key string) bool { return t.find(key) != nil }) {
			return o.kind
		}
	}
	if kind := t.text(engineKey); kind == timing.SGLang || kind == timing.TRTLLM {
		return kind
	}
	return vllmKind
}

// arguments returns all scalar settings as a server prints them, by their names. A setting in a nested object has the
// names of its objects and dots before its name. The objects of settingPlaces do not add to the name.
func (t tree) arguments() map[string]string {
	args := map[string]string{}
	var add func(prefix string, object map[string]any)
	add = func(prefix string, object map[string]any) {
		for key, value := range object {
			name := prefix + key
			if _, ok := args[name]; ok {
				continue
			}
			switch v := value.(type) {
			case bool:
				args[name] = map[bool]string{true: "True", false: "False"}[v]
			case float64:
				args[name] = strconv.FormatFloat(v, 'f', -1, 64)
			case string:
				args[name] = v
			case map[string]any:
				add(name+".", v)
			}
		}
	}
	for _, place := range settingPlaces() {
		object, _ := t.at(place...).(map[string]any)
		if len(place) == 0 {
			object = t
		}
		add("", object)
	}
	return args
}

// typeArguments returns arguments with values of the types that JSON has.
func typeArguments(args map[string]string) map[string]any {
	typed := map[string]any{}
	for key, text := range args {
		if text != "None" && text != "null" {
			typed[key] = parseValue(text)
		}
	}
	return typed
}

// readFlags reads the settings of a server other than vLLM from the corresponding flags of a replay.
func (s *Settings) readFlags(t tree, flags map[string]string) {
	number := func(names ...string) int {
		for _, name := range names {
			if n := numberOf(flags[name]); n > 0 {
				return n
			}
		}
		return 0
	}
	if s.Model = flags["model"]; !isKnownModel(s.Model) && isKnownModel(t.text("model")) {
		s.Model = t.text("model")
	}
	s.Quantized = flags["quantization"] != ""
	s.TensorParallel = max(number("tp"), 1)
	s.DataParallel = max(number("dp"), 1)
	s.Blocks, s.BlockTokens = number("num-gpu-blocks"), max(number("block-size"), 1)
	s.MaxSeqs, s.MaxBatchedTokens = number("max-running-requests", "max-batch-size"), number("chunked-prefill-size", "max-num-tokens")
	s.PrefixCaching = flags["enable-prefix-caching"] != "false"
	for flag, text := range flags {
		// The weights and the memory of the GPU are known only with --gpu.
		if !slices.Contains([]string{"model", "pp", "ep", "quantization", "kv-cache-dtype", "gpu-memory-utilization", "max-model-len", "graphs"}, flag) && text != "" {
			s.flags = append(s.flags, Flag{flag, text})
		}
	}
	stable.Sort(s.flags, func(a, b Flag) int { return strings.Compare(a.Name, b.Name) })
}
