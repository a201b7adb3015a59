package deployment

import (
	"bufio"
	"io"
	"regexp"
)

// ReadTRTLLMLog returns the flags that follow from the KV blocks in the start-up log of a TensorRT-LLM server, or nil
// if the log has none. The server prints the pool of a trial pass before its final pool, so the last one counts.
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
