package measured

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/schema"
)

// IsVLLM reports whether the server is vLLM.
func (s *Settings) IsVLLM() bool { return s.Kind == vllmKind || s.Kind == "" }

// EngineArgs returns the known facts about a server other than vLLM as engine arguments.
func (s *Settings) EngineArgs() []engineargs.Setting {
	all := []engineargs.Setting{{Key: "engine_type", Value: strconv.Quote(s.Kind)}, {Key: "block_size", Value: strconv.Itoa(s.BlockTokens)}}
	rows := engineargs.Rows()
	for _, f := range s.flags {
		row := schema.Find(rows, f.Name)
		if row == nil || row.Sets != "enable_prefix_caching" && row.Sets != rulesKey && !strings.HasPrefix(row.Sets, s.Kind+".") {
			continue
		}
		value := f.Value
		if text, err := row.ToJSON(value); err == nil || row.Kind == schema.Name { // engineargs.Parse reports an unknown name
			value = cmp.Or(text, strconv.Quote(value))
		}
		all = append(all, engineargs.Setting{Key: row.Sets, Value: value})
	}
	if s.Blocks > 0 {
		all = append(all, engineargs.Setting{Key: "num_gpu_blocks", Value: strconv.Itoa(s.Blocks)})
	}
	return all
}

// Fit returns the model of a server other than vLLM on its GPUs. The result ok reports whether both are known.
func (s *Settings) Fit() (f hardware.Fit, ok bool) {
	gpu, err := hardware.FindGPU(s.GPU, nil)
	if err != nil {
		return f, false
	}
	model, err := FindModel(s.Model)
	if err != nil {
		return f, false
	}
	f = s.FitOf(gpu, model)
	f.SGLang, f.BlockTokens, f.MaxSeqs, f.MaxBatch = s.Kind == timing.SGLang, s.BlockTokens, s.MaxSeqs, s.MaxBatchedTokens
	return f, true
}

// completeServer determines the unknown settings of a server other than vLLM from the memory of its GPUs. The
// argument requests has the requests that the server answered.
func (s *Settings) completeServer(requests []Request) {
	s.Engine.Kind = s.Kind
	if s.DataParallel > 1 || s.Pods > 1 {
		s.refusals = append(s.refusals, fmt.Sprintf("there are %d ranks or servers of %s that share the requests, must be 1: which took which request is not told", s.Engines(), nameOf(s.Kind)))
		return
	}
	given := s.EngineArgs()
	gives := func(key string) bool { return engineargs.Gives(nil, given, key) }
	a, err := engineargs.Parse(nil, engineargs.Options{Set: given})
	if err != nil {
		s.refusals = append(s.refusals, err.Error())
		return
	}
	f, ok := s.Fit()
	if ok {
		if a, err = engineargs.Parse(nil, engineargs.Options{Set: given, Unless: engines.OnServer(&a, &f, gives)}); err != nil {
			s.refusals = append(s.refusals, err.Error())
			return
		}
		f = engines.OnEngine(f, &a)
		f.Utilization = engines.ServerShare(&a, &f)
	}
	if s.Kind == timing.TRTLLM {
		s.MaxSeqs, s.MaxBatchedTokens, s.Rules = a.TRTLLM.MaxBatch, a.TRTLLM.MaxTokens, a.Profile
	} else if s.MaxBatchedTokens = a.SGLang.ChunkTokens; !gives("sglang.chunked_prefill_size") {
		s.flags = append(s.flags, Flag{"chunked-prefill-size", strconv.Itoa(s.MaxBatchedTokens)})
	}
	if s.Blocks > 0 {
		return
	}
	if b, err := f.Check(); ok && err == nil {
		s.Blocks = b.Blocks
		s.AddNote("the size of the KV cache is not told: %d tokens, by the memory of the GPUs", b.Blocks*s.BlockTokens)
		return
	}
	for i := range requests {
		s.Blocks += (requests[i].Input+requests[i].Output)/s.BlockTokens + 2
	}
	s.AddNote("the size of the KV cache is not told, nor a GPU and a model with data sheets: it is never full")
}

// commandName is the file of a run with the start command of its server.
const commandName = "command.txt"

// readCommand reads the settings of a server from its start command in command.txt.
func readCommand(path string) (tree, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if t, err := commandOfTRTLLM(string(text), filepath.Dir(path)); t != nil || err != nil {
		return t, err
	}
	_, rest, ok := strings.Cut(string(text), "sglang.launch_server")
	if !ok {
		return nil, fmt.Errorf("%s: no sglang.launch_server and no trtllm-serve, must have the command that started a server of SGLang or TensorRT-LLM", path)
	}
	words := strings.Fields(strings.ReplaceAll(rest, "\\\n", " "))
	args := map[string]string{}
	for i, word := range words {
		name, ok := strings.CutPrefix(word, "--")
		if !ok {
			continue
		}
		name, value, given := strings.Cut(name, "=")
		switch {
		case given:
		case i+1 < len(words) && !strings.HasPrefix(words[i+1], "--"):
			value = strings.Trim(words[i+1], `"'`)
		default:
			value = "True"
		}
		name = strings.ReplaceAll(name, "-", "_")
		args[cmp.Or(otherNames()[name], name)] = value
	}
	return treeOfSGLang(args), nil
}

// otherNames maps names of arguments of SGLang's server to the names in its log.
func otherNames() map[string]string {
	return map[string]string{
		"tensor_parallel_size": "tp_size", "tp": "tp_size", "model": "model_path", "data_parallel_size": "dp_size", "dp": "dp_size",
		"pipeline_parallel_size": "pp_size", "pp": "pp_size", "expert_parallel_size": "ep_size", "ep": "ep_size",
	}
}

// engineKey is the key of the kind of engine among known settings.
const engineKey = "engine"

// argsOfSGLang returns flags of a deployment as arguments of SGLang's server.
func argsOfSGLang(flags map[string]string) map[string]any {
	page := max(1, numberOf(flags["block-size"]))
	args := map[string]string{"tp_size": flags["tp"], "dp_size": flags["dp"], "pp_size": flags["pp"], "page_size": strconv.Itoa(page)}
	for _, name := range []string{
		"max-running-requests", "chunked-prefill-size", "max-prefill-tokens", "prefill-max-requests", "schedule-policy", "schedule-conservativeness",
	} {
		args[strings.ReplaceAll(name, "-", "_")] = flags[name]
	}
	if n := numberOf(flags["num-gpu-blocks"]); n > 0 {
		args["max_total_num_tokens"] = strconv.Itoa(n * page)
	}
	maps.DeleteFunc(args, func(_, text string) bool { return text == "" })
	given, _ := treeOfSGLang(args)["server_args"].(map[string]any)
	return given
}

func numberOf(text string) int {
	n, _ := strconv.Atoi(text) // 0 if text is no number
	return n
}

// checkEngine adds a refusal if the run has another engine than the known settings.
func (s *Settings) checkEngine(known map[string]any) {
	if asked, _ := known[engineKey].(string); asked != "" && asked != s.Kind {
		s.refusals = append(s.refusals, fmt.Sprintf("the engine must be %s, and the run is of %s", asked, s.Kind))
	}
}
