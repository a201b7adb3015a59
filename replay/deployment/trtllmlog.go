package deployment

import (
	"bufio"
	"io"
	"regexp"
)

// ReadTRTLLMLog returns the flags that follow from the KV blocks in the start-up log of a TensorRT-LLM server, nil if
// it has none. The pool of a trial pass is printed before that of the server; the latest counts.
func ReadTRTLLMLog(r io.Reader) map[string]string {
	sized := regexp.MustCompile(`tokens per block=(\d+), primary blocks=(\d+), secondary blocks=\d+`)
	var known map[string]string
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if m := sized.FindStringSubmatch(lines.Text()); m != nil {
			known = map[string]string{"engine": "trtllm", "block-size": m[1], "num-gpu-blocks": m[2]}
		}
	}
	return known
}
