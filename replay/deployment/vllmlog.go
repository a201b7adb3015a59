package deployment

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
)

// maxLine bounds a line of a log. vLLM prints its whole configuration in one line.
const maxLine = 1 << 20

// Log is the content of a server's start-up log.
type Log struct {
	Release  string            // of the engine, such as 0.20.2; "": not in the log
	KVTokens int               // GPU KV cache size; 0: not printed
	Async    string            // asynchronous scheduling: enabled or disabled; "": not printed
	Known    map[string]string // values by flag
	Told     map[string]string // all printed arguments and configuration values of vLLM, by vLLM's names
	Asked    []string          // names of the arguments in vLLM's start command
	// GraphMode is cudagraph_mode, and GraphSizes are the sizes of captured graphs. A field that the log lacks is
	// empty.
	GraphMode  string
	GraphSizes []int
	SGLang     map[string]string // arguments of an SGLang server by SGLang's names; nil: the server is vLLM
}

// ReadLog reads the settings of a server of vLLM or SGLang from its start-up log. ReadLog returns an error if the log
// has neither engine's settings.
func ReadLog(r io.Reader) (*Log, error) {
	v, s := newVLLMLines(), newSGLangLines()
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	n := 0
	for ; lines.Scan(); n++ {
		line := lines.Text()
		v.read(line)
		s.read(line)
	}
	switch err := lines.Err(); {
	case err != nil:
		return nil, fmt.Errorf("line %d: %w", n+1, err)
	case s.args != nil && v.Release == "":
		return s.makeLog()
	case v.Release == "":
		return nil, &NoServerError{}
	}
	return &v.Log, v.translate(v.given)
}

// NoServerError reports a file that has no log lines of a server's start.
type NoServerError struct{}

func (*NoServerError) Error() string {
	return "no line has \"Initializing a V1 LLM engine\" or \"server_args=\", and none starts a server as \"vllm serve\": must be the log of a vLLM or SGLang server from its start, or its start command"
}

// vllmLines collects the lines of a log that describe the start of a vLLM server.
type vllmLines struct {
	Log
	given  map[string]string
	graphs graphReader

	configured, argument, value, batch, cache, async *regexp.Regexp
}

func newVLLMLines() *vllmLines {
	return &vllmLines{
		Log: Log{Known: map[string]string{}, Told: map[string]string{}}, given: map[string]string{}, graphs: newGraphReader(),
		configured: regexp.MustCompile(`Initializing a V1 LLM engine \(v([^)]+)\) with config: (.*)`),
		argument:   regexp.MustCompile(`'(\w+)': ('[^']*'|[\w.+-]+)`),
		value:      regexp.MustCompile(`(\w+)=('[^']*'|[\w.+-]+)`),
		batch:      regexp.MustCompile(`max_num_batched_tokens=(\d+)`),
		cache:      regexp.MustCompile(`GPU KV cache size: ([\d,]+) tokens`),
		async:      regexp.MustCompile(`Asynchronous scheduling is (enabled|disabled)`),
	}
}

// read reads a line.
func (l *vllmLines) read(line string) {
	if list, ok := findArguments(line); ok {
		l.Asked = slices.Sorted(maps.Keys(pairsOf(list)))
		addPairs(l.Told, list, ":")
		collectPairs(l.given, l.argument.FindAllStringSubmatch(list, -1))
	}
	if m := l.configured.FindStringSubmatch(line); m != nil && l.Release == "" {
		l.Release = m[1]
		l.graphs.read(&l.Log, m[2])
		addPairs(l.Told, m[2], "=")
		collectPairs(l.Known, l.value.FindAllStringSubmatch(m[2], -1))
	}
	if m := l.batch.FindStringSubmatch(line); m != nil && strings.Contains(line, "Chunked prefill is enabled") {
		l.given["max_num_batched_tokens"] = m[1]
	}
	if m := l.async.FindStringSubmatch(line); m != nil {
		l.Async = m[1]
	}
	if m := l.cache.FindStringSubmatch(line); m != nil {
		l.KVTokens, _ = strconv.Atoi(strings.ReplaceAll(m[1], ",", "")) // the expression allows only digits and commas
	}
}

// findArguments returns the list of arguments in a line of a vLLM log.
func findArguments(line string) (string, bool) {
	_, list, ok := strings.Cut(line, "non-default args: {")
	end := strings.LastIndex(list, "}")
	if !ok || end < 0 {
		return "", false
	}
	return list[:end], true
}

// ReadArguments returns the arguments in a line of a log that lists the arguments of a vLLM server. The arguments
// have vLLM's own names.
func ReadArguments(line string) (map[string]string, bool) {
	list, ok := findArguments(line)
	if !ok {
		return nil, false
	}
	return pairsOf(list), true
}

// pairsOf returns the names and values of a printed dictionary.
func pairsOf(list string) map[string]string {
	all := map[string]string{}
	addPairs(all, list, ":")
	return all
}

// collectPairs adds pairs of names and values. The first value of a name counts.
func collectPairs(into map[string]string, pairs [][]string) {
	for _, pair := range pairs {
		if _, ok := into[pair[1]]; !ok {
			into[pair[1]] = strings.Trim(pair[2], `'"`)
		}
	}
}

// translate converts arguments of vLLM to flags. Given arguments take precedence over the configuration.
func (l *Log) translate(given map[string]string) error {
	raw := l.Known
	for key, text := range given {
		raw[key] = text
	}
	l.Known = map[string]string{}
	readLogged(l.Known, "vllm", raw)
	l.Known["model"] = raw["model"]
	l.Known["engine"] = "vllm"
	if raw["enforce_eager"] == "True" {
		l.Known["graphs"] = "none"
	}
	if l.KVTokens == 0 {
		return nil
	}
	block := 16
	if text := l.Known["block-size"]; text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return excerpt.Errorf("block_size is %q, must be a number of tokens", text)
		}
		block = n
	}
	l.Known["block-size"] = strconv.Itoa(block)
	l.Known["num-gpu-blocks"] = strconv.Itoa(l.KVTokens / block)
	return nil
}
