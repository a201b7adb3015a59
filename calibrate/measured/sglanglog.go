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

// treeOfSGLang returns the arguments of a server of SGLang as the object server_args of a tree.
func treeOfSGLang(args map[string]string) tree {
	return tree{engineKey: timing.SGLang, "server_args": typeArguments(args)}
}

// readSGLang reads the arguments of a server of SGLang by its own names. The arguments come from the server's log,
// its /server_info, or a meta.json.
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

// podLines parses the regular log lines of servers.
type podLines struct{ vllm, sglang, clock *regexp.Regexp }

func newPodLines() podLines {
	return podLines{
		vllm:   regexp.MustCompile(`generation throughput: ([\d.]+) tokens/s, Running: (\d+) reqs, .*Prefix cache hit rate: ([\d.]+)%`),
		sglang: regexp.MustCompile(`(#?[a-z][a-z -]*[a-z](?: \(token/s\))?): ([\d.]+)`),
		clock:  regexp.MustCompile(`\b(\d\d):(\d\d):(\d\d)\b`),
	}
}

// podRow holds the values of a line: the number of running requests, their tokens per second, and the share of prompt
// tokens that were cached.
type podRow struct {
	generated, running, hit float64
	at                      float64 // s of the day; NaN: unknown
	served                  float64 // proportional to the tokens of the line
	steady                  bool    // there is a line every LogPeriod
}

// readClock returns the time of a line in s of the day, NaN if it has none.
func (l podLines) readClock(line string) float64 {
	m := l.clock.FindStringSubmatch(line)
	if m == nil {
		return math.NaN()
	}
	at := 0.0
	for _, part := range m[1:] {
		n, _ := strconv.Atoi(part) // the expression allows only digits
		at = float64(60*at) + float64(n)
	}
	return at
}

// read parses a line of either engine. For each pass that computes prompts, SGLang logs the cached tokens and all
// tokens. The sums of cached tokens and of all tokens are in prompts.
func (l podLines) read(line string, prompts *[2]float64) (row podRow, ok bool) {
	if m := l.vllm.FindStringSubmatch(line); m != nil {
		row.generated, _ = strconv.ParseFloat(m[1], 64) // the expression allows only a number
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
	row.at, row.served = l.readClock(line), row.running // every line covers the same number of passes
	return row, ok
}
