package measured

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/replay/deployment"
	"github.com/replay-llm/replay/scheduler/timing"
)

// treeOfSGLang returns the arguments of a server of SGLang as a tree has them, in
// server_args.
func treeOfSGLang(args map[string]string) tree {
	return tree{engineKey: timing.SGLang, "server_args": typeArguments(args)}
}

// readSGLang reads the arguments of a server of SGLang, by its own names: those of its log, of its /server_info, or of
// a meta.json.
func (s *Settings) readSGLang(t tree) {
	args := t.arguments()
	s.args = treeOfSGLang(args)["server_args"]
	flags, err := deployment.SGLangFlags(args)
	if err != nil {
		s.missing = append(s.missing, err.Error())
		return
	}
	s.readFlags(t, flags)
	for key, none := range map[string]string{"speculative_algorithm": "", "disaggregation_mode": "null", "enable_hierarchical_cache": "False"} {
		if text := args[key]; text != "" && text != "None" && text != none {
			s.refusals = append(s.refusals, fmt.Sprintf("%s is %s, must be none", key, text))
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

// podRow is the values of a line: the requests that run, the tokens a second that they get, and the share of prompt
// tokens found cached.
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

// read reads a line of either engine. SGLang logs the cached tokens and all tokens of each pass that computes prompts;
// prompts are the sums of both.
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
