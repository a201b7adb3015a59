package deployment

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
)

// sglangLines collects the lines of a log that describe the start of an SGLang server.
type sglangLines struct {
	args                      map[string]string // nil: no line was found
	given, sized, pair, field *regexp.Regexp
}

func newSGLangLines() *sglangLines {
	return &sglangLines{
		given: regexp.MustCompile(`server_args=(?:ServerArgs\(|\{)(.*)[)}]`),
		sized: regexp.MustCompile(`max_total_num_tokens=\d+, chunked_prefill_size=.*`),
		pair:  regexp.MustCompile(`'(\w+)': ('[^']*'|"[^"]*"|[\w.+-]+)`),
		field: regexp.MustCompile(`(\w+)=('[^']*'|"[^"]*"|[\w.+-]*\w)`),
	}
}

// read reads a line. Sizes that the scheduler determined from the memory take precedence over given sizes.
func (l *sglangLines) read(line string) {
	if !strings.Contains(line, "server_args=") && !strings.Contains(line, "max_total_num_tokens=") {
		return
	}
	if l.args == nil && (l.given.MatchString(line) || l.sized.MatchString(line)) {
		l.args = map[string]string{}
	}
	if m := l.given.FindStringSubmatch(line); m != nil {
		pairs := l.pair.FindAllStringSubmatch(m[1], -1)
		if len(pairs) == 0 {
			pairs = l.field.FindAllStringSubmatch(m[1], -1)
		}
		collectPairs(l.args, pairs)
	}
	if text := l.sized.FindString(line); text != "" {
		sized := map[string]string{}
		collectPairs(sized, l.field.FindAllStringSubmatch(text, -1))
		for key, value := range sized {
			l.args[key] = value
		}
	}
}

// makeLog returns the Log for the lines that were read.
func (l *sglangLines) makeLog() (*Log, error) {
	known, err := SGLangFlags(l.args)
	if err != nil {
		return nil, err
	}
	tokens, _ := strconv.Atoi(l.args["max_total_num_tokens"]) // the expressions allow only digits
	return &Log{Release: l.args["version"], KVTokens: tokens, Known: known, SGLang: l.args}, nil
}

// SGLangFlags returns the flags that correspond to the arguments of a server of SGLang. The arguments have the names
// of its log, where max_total_num_tokens is the size of the KV pool.
func SGLangFlags(args map[string]string) (map[string]string, error) {
	known := map[string]string{"engine": "sglang"}
	readLogged(known, "sglang", args)
	if text := args["context_len"]; text != "" {
		known["max-model-len"] = text
	}
	if args["disable_cuda_graph"] == "True" {
		known["graphs"] = "none"
	}
	if n := args["dp_size"]; n != "" && args["enable_dp_attention"] == "True" {
		known["dp"] = n
		if ranks, _ := strconv.Atoi(n); ranks > 1 { // the ranks share the GPUs of tp_size
			tp, _ := strconv.Atoi(args["tp_size"])
			known["tp"] = strconv.Itoa(max(1, tp/ranks))
		}
	}
	page, err := countOf(args, "page_size", 1)
	if err != nil {
		return nil, err
	}
	tokens, err := countOf(args, "max_total_num_tokens", 0)
	if strings.HasPrefix(args["chunked_prefill_size"], "-") { // a negative size: prompts are not split into chunks
		known["chunked-prefill-size"] = strconv.Itoa(max(tokens, 1<<20) / page * page)
	}
	if err != nil || tokens == 0 {
		return known, err
	}
	known["block-size"], known["num-gpu-blocks"] = strconv.Itoa(page), strconv.Itoa(tokens/page)
	return known, nil
}

// countOf returns the value of an argument that is a number of tokens, or unset if the argument is absent.
func countOf(args map[string]string, key string, unset int) (int, error) {
	text := args[key]
	if text == "" || text == "None" {
		return unset, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, excerpt.Errorf("%s is %q, must be a number of tokens", key, text)
	}
	return n, nil
}
