package deployment

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/json"
)

// Command is the command that starts a server.
type Command struct {
	Engine string // vllm, sglang or trtllm
	Model  string // as in the command
	// Args holds values by the engine's own names, with underscores. The value of a switch is True or False.
	Args   map[string]string
	Config string // file with further settings of trtllm-serve; "": none
	Role   string // prefill or decode; "": both
}

// ReadCommands returns the commands of a shell script that start a server of vLLM, SGLang or TensorRT-LLM. The start
// command of a server uses the engine's own program or the program of Dynamo.
func ReadCommands(script string) []Command {
	var all []Command
	for _, words := range splitCommands(script) {
		if c, ok := ReadCommand(words); ok {
			all = append(all, c)
		}
	}
	return all
}

// splitCommands returns the words of each command in a shell script, without comments and quotes. A line that ends in
// a backslash continues on the next line.
func splitCommands(script string) [][]string {
	var all [][]string
	var words []string
	var word strings.Builder
	inWord, quote := false, rune(0)
	endWord := func() {
		if inWord {
			words = append(words, word.String())
		}
		word.Reset()
		inWord = false
	}
	text := []rune(strings.ReplaceAll(script, "\\\n", " ") + "\n")
	for i := 0; i < len(text); i++ {
		r := text[i]
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == '"' && r == '\\' && i+1 < len(text) && strings.ContainsRune(`"\$`, text[i+1]), quote == 0 && r == '\\' && i+1 < len(text):
			i++
			word.WriteRune(text[i])
			inWord = true
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == '#' && !inWord:
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
		case r == '\n' || r == ';' || r == '&':
			endWord()
			if len(words) > 0 {
				all, words = append(all, words), nil
			}
		case r == ' ' || r == '\t' || r == '\r':
			endWord()
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	return all
}

// starter is the beginning of a command that starts a server.
type starter struct {
	words  []string
	engine string
	model  bool // the first word after words is the model
}

func listStarters() []starter {
	return []starter{
		{[]string{"vllm", "serve"}, "vllm", true},
		{[]string{"-m", "vllm.entrypoints.openai.api_server"}, "vllm", false},
		{[]string{"-m", "dynamo.vllm"}, "vllm", false},
		{[]string{"-m", "sglang.launch_server"}, "sglang", false},
		{[]string{"sglang", "serve"}, "sglang", false},
		{[]string{"-m", "dynamo.sglang"}, "sglang", false},
		{[]string{"trtllm-serve", "serve"}, "trtllm", true},
		{[]string{"trtllm-serve"}, "trtllm", true},
		{[]string{"-m", "dynamo.trtllm"}, "trtllm", false},
	}
}

// ReadCommand returns the command that has these words, or false if the command does not start a server that the
// package supports.
func ReadCommand(words []string) (Command, bool) {
	for _, s := range listStarters() {
		for i := range words {
			if i+len(s.words) > len(words) || !slices.Equal(words[i:i+len(s.words)], s.words) {
				continue
			}
			rest := words[i+len(s.words):]
			if s.engine == "trtllm" && s.model && (len(rest) == 0 || rest[0] == "disaggregated") {
				return Command{}, false // the command starts a router
			}
			c := Command{Engine: s.engine, Args: map[string]string{}}
			c.read(rest, s.model)
			return c, true
		}
	}
	return Command{}, false
}

// read reads the words after the name of the program.
func (c *Command) read(words []string, model bool) {
	for i := 0; i < len(words); i++ {
		word := words[i]
		name := strings.TrimLeft(word, "-")
		if name == word || isNumber(word) {
			if model && c.Model == "" {
				c.Model = word
			}
			continue
		}
		name, value, given := strings.Cut(name, "=")
		name = strings.ReplaceAll(name, "-", "_")
		if short, ok := strings.CutPrefix(name, "no_"); ok && c.Engine == "vllm" {
			c.Args[short] = "False"
			continue
		}
		if !given && !c.isSwitch(name) && i+1 < len(words) && (!strings.HasPrefix(words[i+1], "-") || isNumber(words[i+1])) {
			i++
			value, given = words[i], true
		}
		if !given {
			value = "True"
		}
		c.Args[cmp.Or(otherNames(c.Engine)[name], name)] = value
	}
	c.Model = cmp.Or(c.Model, c.Args["model"], c.Args["model_path"])
	c.Config = cmp.Or(c.Args["config"], c.Args["extra_llm_api_options"], c.Args["extra_engine_args"])
	c.Role = c.Args["disaggregation_mode"]
	if c.Args["is_prefill_worker"] == "True" {
		c.Role = "prefill"
	}
	if c.Args["is_decode_worker"] == "True" {
		c.Role = "decode"
	}
}

func isNumber(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return err == nil
}

// isSwitch reports whether an argument has no value. The word after such an argument may be the model.
func (c *Command) isSwitch(name string) bool {
	switch name {
	case "trust_remote_code", "enforce_eager", "enable_expert_parallel", "enable_prefix_caching", "enable_chunked_prefill":
		return true
	}
	return false
}

// otherNames maps alternative names of an engine's arguments to the names that its log uses.
func otherNames(engine string) map[string]string {
	switch engine {
	case "vllm":
		return map[string]string{"tp": "tensor_parallel_size", "pp": "pipeline_parallel_size", "dp": "data_parallel_size", "q": "quantization", "sc": "speculative_config", "speculative_config": "speculative_config"}
	case "sglang":
		return map[string]string{
			"tensor_parallel_size": "tp_size", "tp": "tp_size", "model": "model_path", "data_parallel_size": "dp_size", "dp": "dp_size",
			"pipeline_parallel_size": "pp_size", "pp": "pp_size", "expert_parallel_size": "ep_size", "ep": "ep_size",
		}
	}
	return map[string]string{
		"tp_size": "tensor_parallel_size", "pp_size": "pipeline_parallel_size", "ep_size": "moe_expert_parallel_size", "expert_parallel_size": "moe_expert_parallel_size",
		"kv_cache_free_gpu_memory_fraction": "kv_cache_config.free_gpu_memory_fraction", "free_gpu_memory_fraction": "kv_cache_config.free_gpu_memory_fraction",
	}
}

// Settings returns the arguments of the command together with the settings of the file that the command names. In
// config, names have dots between objects.
func (c *Command) Settings(config map[string]string) map[string]string {
	args := map[string]string{}
	for name, value := range c.Args {
		args[name] = value
	}
	for name, value := range config { // the file takes precedence over the command line
		args[cmp.Or(otherNames(c.Engine)[name], name)] = value
	}
	return args
}

// FlattenSettings adds the scalars of a settings file to all. The names of the scalars start with prefix and have
// dots between objects.
func FlattenSettings(all map[string]string, prefix string, value any) {
	object, ok := value.(map[string]any)
	if !ok {
		text := "null"
		if value != nil {
			text = fmt.Sprint(value)
		}
		all[strings.TrimSuffix(prefix, ".")] = text
		return
	}
	for name, x := range object {
		FlattenSettings(all, prefix+name+".", x)
	}
}

// Flags returns the flags of this program that correspond to a command. The map config has the settings of the file
// that the command names, with dots between objects.
func (c *Command) Flags(config map[string]string) (map[string]string, error) {
	args := c.Settings(config)
	var known map[string]string
	var err error
	switch c.Engine {
	case "vllm":
		known, err = flagsOfVLLM(args)
	case "sglang":
		known, err = flagsOfSGLang(args)
	default:
		known = flagsOfTRTLLM(args)
	}
	if err != nil {
		return nil, err
	}
	known["engine"] = c.Engine
	if strings.HasPrefix(known["kv-cache-dtype"], "fp8_") {
		known["kv-cache-dtype"] = "fp8"
	}
	if c.Model != "" {
		known["model"] = c.Model
	}
	return known, nil
}

func flagsOfVLLM(args map[string]string) (map[string]string, error) {
	for _, name := range []string{"max_model_len", "max_num_batched_tokens"} {
		text, err := expandSize(args[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if args[name] != "" {
			args[name] = text
		}
	}
	known := map[string]string{}
	readLogged(known, "vllm", args)
	if args["enforce_eager"] == "True" {
		known["graphs"] = "none"
	}
	var compiled struct {
		Mode string `json:"cudagraph_mode"`
	}
	if text := args["compilation_config"]; text != "" && json.Unmarshal([]byte(text), &compiled) == nil {
		switch strings.ToUpper(compiled.Mode) {
		case "PIECEWISE":
			known["graphs"] = "piecewise"
		case "NONE":
			known["graphs"] = "none"
		}
	}
	if args["enable_expert_parallel"] == "True" {
		n, err := multiplySizes(known["tp"], known["dp"])
		if err != nil {
			return nil, err
		}
		known["ep"] = n
	}
	for name, flag := range map[string]string{"num_gpu_blocks_override": "num-gpu-blocks", "scheduling_policy": "scheduling-policy", "speculative_config": "speculative-config"} {
		if text := args[name]; text != "" {
			known[flag] = text
		}
	}
	return known, nil
}

// expandSize expands a number with a unit as vLLM does: 16k is 16 thousands, and 16K is 16 times 1,024.
func expandSize(text string) (string, error) {
	units := map[string]float64{"k": 1e3, "m": 1e6, "g": 1e9, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
	if text == "" || units[text[len(text)-1:]] == 0 {
		return text, nil
	}
	n, err := strconv.ParseFloat(text[:len(text)-1], 64)
	if err != nil {
		return "", excerpt.Errorf("%q, must be a number of tokens", text)
	}
	return strconv.Itoa(int(n * units[text[len(text)-1:]])), nil
}

// multiplySizes returns the product of two sizes. An empty size counts as 1.
func multiplySizes(a, b string) (string, error) {
	product := 1
	for _, text := range []string{a, b} {
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return "", excerpt.Errorf("%q, must be a number of GPUs", text)
		}
		product *= n
	}
	return strconv.Itoa(product), nil
}

func flagsOfSGLang(args map[string]string) (map[string]string, error) {
	if n := args["max_total_tokens"]; n != "" {
		args["max_total_num_tokens"] = n
	}
	known, err := SGLangFlags(args)
	if err != nil {
		return nil, err
	}
	delete(known, "model")
	for _, r := range listRows() { // settings that are not in the server's log
		name, own := strings.CutPrefix(r.Key, "sglang.")
		text := args[name]
		switch text {
		case "True", "False":
			text = strings.ToLower(text)
		}
		if own && r.Flag != "" && r.Log == "" && text != "" && known[r.Flag] == "" && r.Sets == r.Key {
			known[r.Flag] = text
		}
	}
	delete(known, "context-length") // an alternative name of max-model-len
	if args["disable_overlap_schedule"] == "" {
		delete(known, "overlap")
	}
	return known, nil
}

// namesOfTRTLLM returns the flag of this program for each setting of a TensorRT-LLM server.
func namesOfTRTLLM() map[string]string {
	return map[string]string{
		"tensor_parallel_size": "tp", "pipeline_parallel_size": "pp", "moe_expert_parallel_size": "ep",
		"max_batch_size": "max-batch-size", "max_num_tokens": "max-num-tokens", "max_seq_len": "max-model-len",
		"enable_chunked_prefill": "enable-chunked-context", "disable_overlap_scheduler": "disable-overlap-scheduler",
		"scheduler_config.capacity_scheduler_policy": "capacity-scheduler-policy", "scheduler_config.context_chunking_policy": "context-chunking-policy",
		"kv_cache_config.enable_block_reuse": "enable-prefix-caching", "kv_cache_config.enable_partial_reuse": "enable-partial-reuse",
		"kv_cache_config.copy_on_partial_reuse": "copy-on-partial-reuse", "kv_cache_config.tokens_per_block": "block-size", "kv_cache_config.dtype": "kv-cache-dtype",
		"kv_cache_config.host_cache_size": "host-cache-size", "scheduler_config.waiting_queue_policy": "waiting-queue-policy", "kv_cache_config.event_buffer_max_size": "event-buffer-max-size",
		"batch_wait_timeout_iters": "batch-wait-timeout-iters", "batch_wait_max_tokens_ratio": "batch-wait-max-tokens-ratio",
		"attention_dp_config.enable_balance": "enable-balance", "attention_dp_config.timeout_iters": "timeout-iters", "attention_dp_config.batching_wait_iters": "batching-wait-iters",
	}
}

// NamesOfTRTLLM returns the setting of a TensorRT-LLM server for each flag of this program. The names of settings
// have dots between objects.
func NamesOfTRTLLM() map[string]string {
	all := map[string]string{}
	for name, flag := range namesOfTRTLLM() {
		all[flag] = name
	}
	return all
}

func flagsOfTRTLLM(args map[string]string) map[string]string {
	known := map[string]string{}
	for name, flag := range namesOfTRTLLM() {
		text := args[name]
		switch text {
		case "":
			continue
		case "True", "False":
			text = strings.ToLower(text)
		}
		known[flag] = text
	}
	if tokens, err := strconv.Atoi(args["kv_cache_config.max_tokens"]); err == nil {
		block, err := strconv.Atoi(cmp.Or(known["block-size"], "32"))
		if err == nil && block > 0 {
			known["num-gpu-blocks"] = strconv.Itoa(tokens / block)
		}
	}
	if text, ok := args["cuda_graph_config"]; ok && text == "null" {
		known["graphs"] = "none"
	}
	if strings.ToLower(args["enable_attention_dp"]) == "true" && known["tp"] != "" {
		known["dp"], known["tp"] = known["tp"], "1"
	}
	return known
}
