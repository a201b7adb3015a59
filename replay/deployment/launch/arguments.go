package launch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/replay/deployment"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/schema"
)

// argument is one argument of a command. argument is a switch if its value is empty.
type argument struct{ name, value string }

// arguments holds the arguments of the servers of a pool.
type arguments struct {
	list   []argument
	config [][2]string // settings of TensorRT-LLM in its settings file, by names with dots between objects
}

// words returns the arguments as words of a command.
func (a *arguments) words() []string {
	var all []string
	for _, x := range a.list {
		all = append(all, x.name)
		if x.value != "" {
			all = append(all, x.value)
		}
	}
	return all
}

// add adds an argument. The name may have underscores.
func (a *arguments) add(name, value string) {
	a.list = append(a.list, argument{"--" + strings.ReplaceAll(name, "_", "-"), value})
}

// rowsInOrder returns the settings of engines and hardware. The settings of deployment files come first, in the order
// of those files.
func rowsInOrder() []schema.Row {
	all := append(hardware.Settings(), engineargs.Rows()...)
	return append(schema.Placed(all), slices.DeleteFunc(all, func(r schema.Row) bool { return r.File.Place != 0 })...)
}

// isSimulated reports whether a setting describes the simulation, the hardware or the requests. Servers have no
// argument for such a setting.
func isSimulated(flag string) bool {
	switch flag {
	case "gpu", "model", "engine", "gpu-file", "op-tables", "timing-profile", "planner-profile-data", "speedup-ratio", "decode-speedup-ratio", "startup-time",
		"kv-bytes-per-token", "kv-transfer-bandwidth", "kv-transfer-latency-ms", "acceptance-rate", "scheduler-profile", "ignore-eos",
		"bandwidth-g1-to-g2-gbps", "bandwidth-g2-to-g1-gbps", "bandwidth-g2-to-g3-gbps", "bandwidth-g3-to-g2-gbps", "hicache-layers":
		return true
	}
	return false
}

// engineName returns the name of a setting in the arguments of an engine, "" if it has none. The result negated
// reports whether the argument is the opposite of the setting.
func engineName(r *schema.Row, engine string) (name string, negated bool) {
	for field := range strings.FieldsSeq(r.Log) {
		of, name, _ := strings.Cut(field, ":")
		if of == engine {
			name, negated = strings.CutPrefix(name, "!")
			return name, negated
		}
	}
	// The engine has no arguments for the three excluded keys.
	if own, ok := strings.CutPrefix(r.Key, "sglang."); ok && engine == "sglang" && !strings.Contains(own, ".") && !slices.Contains([]string{"clip_max_new_tokens", "overlap", "sliding_window_size"}, own) {
		return own, false
	}
	if engine == "vllm" {
		switch r.Key {
		case "scheduling_policy", "prefill_schedule_interval":
			return r.Key, false
		case "disable_hybrid_kv_cache_manager":
			return r.Key, false
		}
	}
	return "", false
}

// writeArguments returns the arguments of the servers of a pool.
func (w *writer) writeArguments(p *Pool) arguments {
	var a arguments
	if w.Engine == "trtllm" {
		return w.writeTRTLLM(p)
	}
	rest := maps.Clone(p.Settings)
	take := func(flag string) string {
		value := rest[flag]
		delete(rest, flag)
		return value
	}
	w.addParallel(&a, take)
	w.addPrecision(&a, take)
	w.addGraphs(&a, take)
	w.addBlocks(&a, p, take)
	if w.Engine == "vllm" {
		w.addDrafts(&a, take("speculative-config"), take("num-speculative-tokens"))
	}
	for _, r := range rowsInOrder() {
		key := r.Flag
		if key == "" {
			key = r.Key
		}
		value, given := rest[key]
		if !given {
			continue
		}
		delete(rest, key)
		switch name, negated := engineName(&r, w.Engine); {
		case isSimulated(key):
		case w.target == "dynamo" && name == "schedule_low_priority_values_first" && value == "true":
			w.miss("%s %s: Dynamo's worker of SGLang refuses it", key, value)
		case key == "speculative-config": // for SGLang, this key holds only what is simulated
		case r.Only != "" && r.Only != w.Engine:
		case name == "" && value == r.Preset():
		case name == "":
			w.miss("%s %s: %s has no such argument", key, value, w.nameEngine())
		default:
			w.addSetting(&a, name, value, negated, r.Kind == schema.Bool)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(rest)) {
		w.miss("%s %s: %s has no such argument", key, rest[key], w.nameEngine())
	}
	return a
}

// addSetting adds an argument with a value, or the switch that the value selects.
func (w *writer) addSetting(a *arguments, name, value string, negated, isBool bool) {
	switch {
	case value == "unlimited":
		w.miss("%s unlimited: %s has always a limit", name, w.nameEngine())
	case !isBool:
		a.add(name, value)
	case w.Engine == "vllm" && value == "false":
		a.add("no_"+name, "")
	case (value == "true") != negated:
		a.add(name, "")
	}
}

// sizeOf returns the number in text, and 1 if text is not a number.
func sizeOf(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 1
	}
	return max(n, 1)
}

// addParallel adds the division of the model among GPUs.
func (w *writer) addParallel(a *arguments, take func(string) string) {
	tp, pp, dp, ep := sizeOf(take("tp")), sizeOf(take("pp")), max(sizeOf(take("dp")), sizeOf(take("attn-dp-size"))), sizeOf(take("ep"))
	if w.Engine == "sglang" {
		a.add("tp_size", strconv.Itoa(tp*dp)) // each of the dp attention groups has tp of these GPUs
		if pp > 1 {
			a.add("pp_size", strconv.Itoa(pp))
		}
		if dp > 1 {
			a.add("dp_size", strconv.Itoa(dp))
			a.add("enable_dp_attention", "")
		}
		if ep > 1 {
			a.add("ep_size", strconv.Itoa(ep))
		}
		return
	}
	a.add("tensor_parallel_size", strconv.Itoa(tp))
	if pp > 1 {
		a.add("pipeline_parallel_size", strconv.Itoa(pp))
	}
	if dp > 1 {
		a.add("data_parallel_size", strconv.Itoa(dp))
	}
	if ep > 1 {
		a.add("enable_expert_parallel", "")
	}
}

// addPrecision adds the types of the weights and of the KV cache.
func (w *writer) addPrecision(a *arguments, take func(string) string) {
	switch weights := take("quantization"); weights {
	case "", "auto":
	case "fp8":
		a.add("quantization", "fp8")
	default:
		w.miss("quantization %s: the server reads it from the checkpoint: --model must name one of this precision", weights)
	}
	switch kv := take("kv-cache-dtype"); {
	case kv == "fp8" && w.Engine == "sglang":
		a.add("kv_cache_dtype", "fp8_e4m3")
	case kv == "fp8":
		a.add("kv_cache_dtype", "fp8")
	}
}

// addGraphs adds the mode of graphs if it is not the server's default.
func (w *writer) addGraphs(a *arguments, take func(string) string) {
	switch graphs := take("graphs"); {
	case graphs == "none" && w.Engine == "vllm":
		a.add("enforce_eager", "")
	case graphs == "none":
		a.add("disable_cuda_graph", "")
	case graphs == "piecewise" && w.Engine == "vllm":
		a.add("compilation_config", `{"cudagraph_mode":"PIECEWISE"}`)
	case graphs == "piecewise":
		w.miss("graphs piecewise: %s has no such argument", w.nameEngine())
	}
}

// addBlocks adds the size of the KV cache if it is given. Otherwise the size follows from the memory.
func (w *writer) addBlocks(a *arguments, p *Pool, take func(string) string) {
	blocks := take("num-gpu-blocks")
	switch {
	case blocks == "":
	case w.Engine == "vllm":
		a.add("num_gpu_blocks_override", blocks)
	default:
		a.add("max_total_tokens", strconv.Itoa(sizeOf(blocks)*sizeOf(p.Settings["block-size"])))
	}
}

// addDrafts adds vLLM's own keys of a speculative configuration, without the keys of the simulation.
func (w *writer) addDrafts(a *arguments, text, tokens string) {
	all := map[string]json.RawMessage{}
	if text != "" {
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			w.miss("speculative-config %s: no JSON object", text)
			return
		}
	}
	if tokens != "" {
		all["num_speculative_tokens"] = json.RawMessage(tokens)
	}
	if len(all) == 0 {
		return
	}
	for _, key := range []string{"acceptance_rate", "acceptance_seed", "draft_ms", "draft_share", "synthetic_acceptance_rates", "synthetic_acceptance_length"} {
		delete(all, key)
	}
	if all["method"] == nil && all["model"] == nil {
		w.miss("drafts: vLLM requires the method or the model of the drafter in its speculative_config")
	}
	own, err := json.Marshal(all)
	if err == nil {
		a.add("speculative_config", string(own))
	}
}

// quoteWord quotes a word for a shell if necessary.
func quoteWord(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@,+*", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 && !strings.Contains(word, "*") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// writeFlat returns settings as YAML. The names of the settings have dots between objects.
func writeFlat(config [][2]string) string {
	var b strings.Builder
	open := ""
	for _, pair := range config {
		object, name, nested := strings.Cut(pair[0], ".")
		if !nested {
			open = ""
			fmt.Fprintf(&b, "%s: %s\n", object, pair[1])
			continue
		}
		if object != open {
			fmt.Fprintf(&b, "%s:\n", object)
			open = object
		}
		fmt.Fprintf(&b, "  %s: %s\n", name, pair[1])
	}
	return b.String()
}

// writeTRTLLM returns the arguments of a TensorRT-LLM server for its command line and for its settings file.
func (w *writer) writeTRTLLM(p *Pool) arguments {
	var a arguments
	rest := maps.Clone(p.Settings)
	tp, dp := sizeOf(rest["tp"]), max(sizeOf(rest["dp"]), sizeOf(rest["attn-dp-size"]))
	sizes := map[string]int{"tensor_parallel_size": tp * dp, "pipeline_parallel_size": sizeOf(rest["pp"]), "moe_expert_parallel_size": sizeOf(rest["ep"])}
	for _, name := range []string{"tensor_parallel_size", "pipeline_parallel_size", "moe_expert_parallel_size"} {
		if n := sizes[name]; n > 1 || name == "tensor_parallel_size" {
			a.config = append(a.config, [2]string{name, strconv.Itoa(n)})
		}
	}
	if dp > 1 {
		a.config = append(a.config, [2]string{"enable_attention_dp", "true"})
	}
	names := deployment.NamesOfTRTLLM()
	for _, flag := range []string{"tp", "dp", "pp", "ep", "attn-dp-size"} {
		delete(rest, flag)
	}
	flat, nested := w.placeTRTLLM(p, rest)
	for _, flag := range slices.Sorted(maps.Keys(rest)) {
		value := rest[flag]
		switch name := names[flag]; {
		case isSimulated(flag), flag == "kv-cache-dtype" && value == "auto", flag == "quantization" && value == "auto", flag == "graphs" && value == "full":
		case flag == "graphs" && value == "none":
			flat = append(flat, [2]string{"cuda_graph_config", "null"})
		case flag == "quantization":
			w.miss("quantization %s: the server reads it from the checkpoint: --model must name one of this precision", value)
		case flag == "gpu-memory-utilization":
			w.miss("gpu-memory-utilization %s: TensorRT-LLM takes a share of what weights and passes leave (free_gpu_memory_fraction)", value)
		case flag == "num-gpu-blocks":
			nested = append(nested, [2]string{"kv_cache_config.max_tokens", strconv.Itoa(sizeOf(value) * sizeOf(cmp.Or(p.Settings["block-size"], tokensPerBlock)))})
		case flag == "capacity-scheduler-policy" && value == "MAX_REQUESTS":
			w.miss("capacity-scheduler-policy %s: TensorRT-LLM's scheduler_config has no such value", value)
		case name == "":
			w.miss("%s %s: TensorRT-LLM has no such setting", flag, value)
		case strings.Contains(name, "."):
			nested = append(nested, [2]string{name, value})
		default:
			flat = append(flat, [2]string{name, value})
		}
	}
	stable.Sort(nested, func(x, y [2]string) int { return strings.Compare(x[0], y[0]) })
	a.config = append(append(a.config, flat...), nested...)
	return a
}

// tokensPerBlock is the default of TensorRT-LLM.
const tokensPerBlock = "32"

// placeTRTLLM returns the settings that follow from the pool's role and the router. The results are separated into
// top-level settings and settings inside objects.
func (w *writer) placeTRTLLM(p *Pool, rest map[string]string) (flat, nested [][2]string) {
	if p.Role == "" {
		return nil, nil
	}
	nested = append(nested, [2]string{"cache_transceiver_config.backend", "DEFAULT"})
	if p.Role == "prefill" && rest["disable-overlap-scheduler"] != "true" { // workers that only prefill do not support it
		delete(rest, "disable-overlap-scheduler")
		flat = append(flat, [2]string{"disable_overlap_scheduler", "true"})
	}
	if w.Router == "kv" && w.target != "dynamo" && rest["event-buffer-max-size"] == "" {
		nested = append(nested, [2]string{"kv_cache_config.event_buffer_max_size", "1024"})
	}
	return flat, nested
}
