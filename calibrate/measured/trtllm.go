package measured

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/loadgen/formats/scan"
	"github.com/replay-llm/replay/replay/deployment"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/trtllm"
)

// releaseKey is the key of the release of a TensorRT-LLM server.
const releaseKey = "trtllm_version"

// readTRTLLM reads the settings of a TensorRT-LLM server by its own names. The settings come from the server's start
// command, its settings file, or a meta.json.
func (s *Settings) readTRTLLM(t tree) {
	args := t.arguments()
	s.args = typeArguments(args)
	c := deployment.Command{Engine: timing.TRTLLM}
	flags, err := c.Flags(args)
	if err != nil {
		s.missing = append(s.missing, err.Error())
		return
	}
	for flag, key := range map[string]string{"num-gpu-blocks": "num_gpu_blocks", "block-size": "block_size", "dp": "data_parallel_size", "scheduler-profile": rulesKey} {
		if text := args[key]; flags[flag] == "" && text != "" {
			flags[flag] = text
		}
	}
	if flags["block-size"] == "" {
		flags["block-size"] = fmt.Sprint(trtllm.DefaultBlock)
	}
	if n := numberOf(args["kv_cache_config.max_tokens"]) / max(1, numberOf(flags["block-size"])); n > 0 && flags["num-gpu-blocks"] == "" {
		flags["num-gpu-blocks"] = fmt.Sprint(n)
	}
	if release := args[releaseKey]; release != "" && flags["scheduler-profile"] == "" {
		flags["scheduler-profile"] = rulesOfTRTLLM(release)
	}
	flags["model"] = args["model"]
	s.readFlags(t, flags)
	s.Rules = flags["scheduler-profile"]
	for _, name := range configNames() {
		if file := args[name]; file != "" {
			s.AddNote("the settings of %s are not read: the directory of the run must have the file", file)
		}
	}
	if share := args["kv_cache_config.free_gpu_memory_fraction"]; share != "" && share != "0.9" && s.Blocks == 0 {
		s.AddNote("free_gpu_memory_fraction is %s, taken as 0.9: --num-gpu-blocks gives the size of the KV cache", share)
	}
	s.refuseOfTRTLLM(args)
}

// rulesOfTRTLLM returns the rules for a release. rulesOfTRTLLM returns the newest rules if the release is unknown.
func rulesOfTRTLLM(release string) string {
	for _, name := range trtllm.Profiles() {
		if line := strings.TrimPrefix(name, "trtllm-"); release == line || strings.HasPrefix(release, line+".") {
			return name
		}
	}
	return trtllm.Newest
}

// refuseOfTRTLLM adds refusals for settings of a TensorRT-LLM server that are not simulated.
func (s *Settings) refuseOfTRTLLM(args map[string]string) {
	for key, text := range args {
		object, _, nested := strings.Cut(key, ".")
		switch {
		case text == "None" || text == "null":
		case nested && (object == "speculative_config" || object == "cache_transceiver_config"):
			s.refusals = append(s.refusals, fmt.Sprintf("%s is %s, must be absent", key, text))
		case key == "pipeline_parallel_size" && numberOf(text) > 1:
			s.refusals = append(s.refusals, fmt.Sprintf("%s is %s, must be 1: micro-batches of its stages are not simulated", key, text))
		case key == "kv_cache_config.host_cache_size" && numberOf(text) > 0:
			s.refusals = append(s.refusals, fmt.Sprintf("%s is %s, must be 0: KV blocks come from host memory", key, text))
		}
	}
	slices.Sort(s.refusals)
}

// commandOfTRTLLM returns the settings of the first command in a text that starts a TensorRT-LLM server, nil if there
// is none. The settings file that the command names may be in dir, the directory of the run.
func commandOfTRTLLM(text, dir string) (tree, error) {
	for _, c := range deployment.ReadCommands(text) {
		if c.Engine != timing.TRTLLM {
			continue
		}
		config, err := readConfig(dir, c.Config)
		if err != nil {
			return nil, err
		}
		args := typeArguments(c.Settings(config))
		args["model"] = c.Model
		if config != nil {
			for _, name := range configNames() {
				delete(args, name)
			}
		}
		return tree{engineKey: c.Engine, "server_args": args}, nil
	}
	return nil, nil
}

// configNames returns the arguments of a command that name its settings file.
func configNames() []string { return []string{"config", "extra_llm_api_options", "extra_engine_args"} }

// readConfig reads a settings file of a server. The names have dots between objects. readConfig returns nil if the
// directory has no file with this name.
func readConfig(dir, name string) (map[string]string, error) {
	path := filepath.Join(dir, filepath.Base(name))
	if name == "" || !isFile(path) {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		var syntax *yaml.SyntaxError
		if errors.As(err, &syntax) {
			return nil, excerpt.Errorf("%s:%d: %s", path, syntax.Token.Position.Line, syntax.Message)
		}
		return nil, excerpt.Errorf("%s: must be a mapping of settings", path)
	}
	config := map[string]string{}
	for name, value := range values {
		deployment.FlattenSettings(config, name+".", value)
	}
	return config, nil
}

// logOfTRTLLM returns the settings in the log of a TensorRT-LLM server, nil if the file is not such a log.
func logOfTRTLLM(path string) tree {
	f, err := scan.OpenPacked(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	known := deployment.ReadTRTLLMLog(f)
	if known == nil {
		return nil
	}
	return KnownSettings(known)
}

// knownOfTRTLLM adds flags of a deployment by the names of TensorRT-LLM's settings.
func knownOfTRTLLM(known map[string]any, flags map[string]string) {
	for flag, name := range deployment.NamesOfTRTLLM() {
		if text := flags[flag]; text != "" {
			known[name] = parseValue(text)
		}
	}
	if text := flags["scheduler-profile"]; text != "" {
		known[rulesKey] = text
	}
}
