package measured

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/replay-llm/replay/loadgen/formats/scan"
	"github.com/replay-llm/replay/replay/deployment"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/schema"
)

// ReadServer reads the settings of a run's server from its meta.json or, if there is none, from its start-up log. The
// maps in known have further settings. A setting comes from the first source that has it.
func ReadServer(dir string, known ...map[string]any) (Settings, error) {
	s, err := readSettings(filepath.Join(dir, "meta.json"), known)
	if !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	logs, e := findLogs(dir)
	told := slices.ContainsFunc(known, func(k map[string]any) bool { return len(k) > 0 })
	command := filepath.Join(dir, commandName)
	if e != nil || len(logs) == 0 && !told && !isFile(command) {
		return s, cmp.Or(e, err)
	}
	t := tree{}
	switch {
	case len(logs) > 0:
		t, err = readLog(logs[0])
	case isFile(command):
		t, err = readCommand(command)
	default:
		err = nil
	}
	if err != nil {
		return s, err
	}
	if t.text(engineKey) == timing.TRTLLM && len(logs) > 0 && isFile(command) { // the log has only the KV blocks
		c, err := readCommand(command)
		if err != nil {
			return s, err
		}
		t.fill(c)
	}
	for _, k := range known {
		t.fill(k)
	}
	s = newSettings(t)
	s.Pods = max(len(logs), t.number("pods", 1))
	if len(logs) > 1 {
		s.AddNote("%d logs of servers: as many behind one router", s.Pods)
	}
	return s, nil
}

// findLogs returns the logs of a run's servers, in the order of their names.
func findLogs(dir string) ([]string, error) {
	return findFiles(dir, "vllm*.log", "vllm*.log.gz", "sglang*.log", "sglang*.log.gz", "trtllm*.log", "trtllm*.log.gz", "server*.log", "server*.log.gz")
}

// findFiles returns the files of a directory with names that match one of several patterns, in the order of their
// names.
func findFiles(dir string, patterns ...string) ([]string, error) {
	var all []string
	for _, name := range patterns {
		found, err := filepath.Glob(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	slices.Sort(all)
	return all, nil
}

// readLog reads the settings that a server logged at its start, by the keys of meta.json.
func readLog(path string) (tree, error) {
	f, err := scan.OpenPacked(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	log, err := deployment.ReadLog(f)
	if errors.As(err, new(*deployment.NoServerError)) {
		if t := logOfTRTLLM(path); t != nil {
			return t, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if log.SGLang != nil {
		return treeOfSGLang(log.SGLang), nil
	}
	t := KnownSettings(log.Known)
	t["vllm_version"], t[askedKey] = log.Release, log.Asked
	if log.Async != "" {
		t["async_scheduling"] = log.Async == "enabled"
	}
	if log.GraphMode != "" {
		t["cudagraph_mode"] = log.GraphMode
	}
	var sizes []any
	for _, n := range log.GraphSizes {
		sizes = append(sizes, float64(n))
	}
	if len(sizes) > 0 {
		t["cudagraph_capture_sizes"] = sizes
	}
	for key, text := range log.Told {
		if _, ok := t[key]; !ok && text != "None" {
			t[key] = parseValue(text)
		}
	}
	return t, nil
}

// parseValue parses a value as Python prints it: a number, a boolean or text.
func parseValue(text string) any {
	if number, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(number) && !math.IsInf(number, 0) {
		return number
	}
	switch text {
	case "True", "true":
		return true
	case "False", "false":
		return false
	}
	return text
}

// KnownSettings returns flags of a deployment as settings, by the keys of meta.json.
func KnownSettings(flags map[string]string) map[string]any {
	known := map[string]any{}
	keys := map[string]string{"gpu": "device_name", "model": "model", "tp": "tensor_parallel_size", "dp": "data_parallel_size", "pp": "pipeline_parallel_size", "max-in-flight": inFlightKey}
	rows := engineargs.Rows()
	for _, flag := range []string{"num-gpu-blocks", "block-size", "max-num-seqs", "max-num-batched-tokens", "enable-prefix-caching", "enable-chunked-prefill"} {
		keys[flag] = schema.Find(rows, flag).Sets
	}
	for flag, key := range keys {
		text, ok := flags[flag]
		if !ok {
			continue
		}
		if known[key] = text; flag != "gpu" && flag != "model" {
			known[key] = parseValue(text)
		}
	}
	if flags["graphs"] == "none" {
		known["enforce_eager"] = true
	}
	if engine := flags["engine"]; engine != "" {
		known[engineKey] = engine
	}
	switch flags["engine"] {
	case timing.SGLang:
		known["server_args"] = argsOfSGLang(flags)
	case timing.TRTLLM:
		knownOfTRTLLM(known, flags)
	}
	return known
}

// findRouter returns the router's file, which is in the directory of the run or in its parent, or "" if there is
// none.
func findRouter(dir string) string {
	for _, path := range []string{filepath.Join(dir, "router.yaml"), filepath.Join(dir, "..", "router.yaml")} {
		if isFile(path) {
			return path
		}
	}
	return ""
}

// ReadSettingsOf reads the settings of a run's server as ReadServer does. The map known has settings that the run
// lacks.
func ReadSettingsOf(dir string, known map[string]any) (Settings, error) {
	s, err := ReadServer(dir, known)
	if errors.Is(err, fs.ErrNotExist) {
		t := tree{}
		t.fill(known)
		return newSettings(t), nil
	}
	return s, err
}
