package deployment

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
)

// sglangLines collects the lines of a log about the start of an SGLang server.
type sglangLines struct {
	args                      map[string]string // nil: nothing
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

// read takes in a line. Sizes that the scheduler found in memory win over the given ones.
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

// makeLog returns what the lines said.
func (l *sglangLines) makeLog() (*Log, error) {
	known, err := SGLangFlags(l.args)
	if err != nil {
		return nil, err
	}
	tokens, _ := strconv.Atoi(l.args["max_total_num_tokens"]) // it is all digits
	return &Log{Release: l.args["version"], KVTokens: tokens, Known: known, SGLang: l.args}, nil
}

// SGLangFlags returns the flags for the arguments of a server of SGLang, by their names in its log, where
// max_total_num_tokens is the size of its KV pool.
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
		if ranks, _ := strconv.Atoi(n); ranks > 1 { // which are among the GPUs of tp_size
			tp, _ := strconv.Atoi(args["tp_size"])
			known["tp"] = strconv.Itoa(max(1, tp/ranks))
		}
	}
	page, err := countOf(args, "page_size", 1)
	if err != nil {
		return nil, err
	}
	tokens, err := countOf(args, "max_total_num_tokens", 0)
	if strings.HasPrefix(args["chunked_prefill_size"], "-") { // prompts are not cut
		known["chunked-prefill-size"] = strconv.Itoa(max(tokens, 1<<20) / page * page)
	}
	if err != nil || tokens == 0 {
		return known, err
	}
	known["block-size"], known["num-gpu-blocks"] = strconv.Itoa(page), strconv.Itoa(tokens/page)
	return known, nil
}

// countOf returns an argument that is a number of tokens, unset where it is not told.
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
