package measured

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/replay/deployment"
	"github.com/replay-llm/replay/scheduler/vllm"
)

// treeOfSGLang returns the arguments of a server of SGLang as a tree has them, in
// server_args.
func treeOfSGLang(args map[string]string) tree {
	typed := map[string]any{}
	for key, text := range args {
		switch number, err := strconv.ParseFloat(text, 64); {
		case text == "None":
		case text == "True" || text == "False":
			typed[key] = text == "True"
		case err == nil:
			typed[key] = number
		default:
			typed[key] = text
		}
	}
	return tree{"engine": "sglang", "server_args": typed}
}

// isSGLang reports whether the settings are those of a server of SGLang.
func (t tree) isSGLang() bool {
	if t.text("vllm_version") != "" || t.find(vllm.SeqsKey) != nil {
		return false
	}
	for _, key := range []string{"sglang_version", "mem_fraction_static", "chunked_prefill_size", "max_running_requests"} {
		if t.find(key) != nil {
			return true
		}
	}
	return t.text("engine") == "sglang"
}

// readSGLang takes what the arguments of a server of SGLang say, by its own names: those of
// its log, of its /server_info, or of a meta.json.
func (s *Settings) readSGLang(t tree) {
	s.Kind, s.DataParallel = "sglang", 1
	args := map[string]string{}
	for _, place := range settingPlaces() {
		object, _ := t.at(place...).(map[string]any)
		if len(place) == 0 {
			object = t
		}
		for key, value := range object {
			if _, ok := args[key]; ok {
				continue
			}
			switch v := value.(type) {
			case bool:
				args[key] = map[bool]string{true: "True", false: "False"}[v]
			case float64:
				args[key] = strconv.FormatFloat(v, 'f', -1, 64)
			case string:
				args[key] = v
			}
		}
	}
	s.args = treeOfSGLang(args)["server_args"]
	flags, err := deployment.SGLangFlags(args)
	if err != nil {
		s.missing = append(s.missing, err.Error())
		return
	}
	number := func(flag string) int {
		n, _ := strconv.Atoi(flags[flag])
		return n
	}
	if s.Model = flags["model"]; !isKnownModel(s.Model) && isKnownModel(t.text("model")) {
		s.Model = t.text("model")
	}
	s.Quantized = flags["quantization"] != ""
	s.TensorParallel = max(number("tp"), 1)
	s.DataParallel = max(number("dp"), 1)
	s.Blocks, s.BlockTokens = number("num-gpu-blocks"), max(number("block-size"), 1)
	s.MaxSeqs, s.MaxBatchedTokens = number("max-running-requests"), number("chunked-prefill-size")
	s.PrefixCaching = flags["enable-prefix-caching"] != "false"
	for flag, text := range flags {
		// What the weights and the memory of the GPU are is for those who give --gpu.
		if !slices.Contains([]string{"model", "pp", "ep", "quantization", "kv-cache-dtype", "gpu-memory-utilization", "max-model-len", "graphs"}, flag) && text != "" {
			s.flags = append(s.flags, Flag{flag, text})
		}
	}
	slices.SortFunc(s.flags, func(a, b Flag) int { return strings.Compare(a.Name, b.Name) })
	for key, none := range map[string]string{"speculative_algorithm": "", "disaggregation_mode": "null", "enable_hierarchical_cache": "False"} {
		if text := args[key]; text != "" && text != "None" && text != none {
			s.refusals = append(s.refusals, fmt.Sprintf("%s is %s, want none", key, text))
		}
	}
	slices.Sort(s.refusals)
}

// podLines reads what servers log every few seconds, or passes, while they serve.
type podLines struct{ vllm, sglang, clock *regexp.Regexp }

func newPodLines() podLines {
	return podLines{
		vllm:   regexp.MustCompile(`generation throughput: ([\d.]+) tokens/s, Running: (\d+) reqs, .*Prefix cache hit rate: ([\d.]+)%`),
		sglang: regexp.MustCompile(`(#?[a-z][a-z -]*[a-z](?: \(token/s\))?): ([\d.]+)`),
		clock:  regexp.MustCompile(`\b(\d\d):(\d\d):(\d\d)\b`),
	}
}

// podRow is what a line says: the requests that run, the tokens a second that they get, and
// the share of prompt tokens found cached.
type podRow struct {
	generated, running, hit float64
	at                      float64 // s of the day; NaN: not told
	served                  float64 // the tokens of which it tells, in proportion
	steady                  bool    // lines come every logPeriod
}

// readClock returns the time of a line, in s of the day; NaN where it has none.
func (l podLines) readClock(line string) float64 {
	m := l.clock.FindStringSubmatch(line)
	if m == nil {
		return math.NaN()
	}
	at := 0.0
	for _, part := range m[1:] {
		n, _ := strconv.Atoi(part) // they are all digits
		at = float64(60*at) + float64(n)
	}
	return at
}

// read reads a line of either engine. SGLang says of each pass that computes prompts what was
// found, of which prompts are the sums: cached tokens, and all.
func (l podLines) read(line string, prompts *[2]float64) (row podRow, ok bool) {
	if m := l.vllm.FindStringSubmatch(line); m != nil {
		row.generated, _ = strconv.ParseFloat(m[1], 64) // they are all digits
		row.running, _ = strconv.ParseFloat(m[2], 64)
		row.hit, _ = strconv.ParseFloat(m[3], 64)
		row.hit /= 100
		row.at, row.served, row.steady = l.readClock(line), row.generated, true
		return row, true
	}
	decode := strings.Contains(line, "Decode batch")
	if !decode && !strings.Contains(line, "Prefill batch") {
		return row, false
	}
	fields := map[string]float64{}
	for _, m := range l.sglang.FindAllStringSubmatch(line, -1) {
		fields[m[1]], _ = strconv.ParseFloat(m[2], 64)
	}
	if !decode {
		prompts[0], prompts[1] = prompts[0]+fields["#cached-token"], prompts[1]+fields["#cached-token"]+fields["#new-token"]
		return row, false
	}
	row.running, row.hit = fields["#running-req"], math.NaN()
	row.generated, ok = fields["gen throughput (token/s)"]
	row.at, row.served = l.readClock(line), row.running // a line is of as many passes as any
	return row, ok
}
