// Package deployment holds what a deployment file says of a served model: the GPU, the
// model and how it is spread, the engine and its settings. The file is YAML, with the
// names of flags as keys; package options reads it as it reads a file of flags.
//
// Read deployment.go, vllmlog.go and sglanglog.go.
package deployment

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Setting is a line of the file.
type Setting struct {
	Flag  string
	Value string // "": not known, written as a comment with Usual
	Usual string // what holds when nothing is said; "": the line is left out where nothing is known
	Help  string
}

// Settings returns all settings a file may have, in the order in which they are
// written, none of them known.
func Settings() []Setting {
	return []Setting{
		{"gpu", "", "h100", "replay gpus lists the names"},
		{"model", "", "llama-3.1-8b", "a name that replay models lists, or the path of a config.json"},
		{"tp", "", "1", "tensor parallelism: GPUs that share each layer"},
		{"pp", "", "1", "pipeline parallelism: stages of layers"},
		{"ep", "", "1", "expert parallelism: GPUs over which whole experts are spread, tp times dp; 1: each is cut"},
		{"dp", "", "1", "data parallelism of attention: ranks of a worker"},
		{"quantization", "", "auto", "type of the weights; auto: as the checkpoint has them"},
		{"kv-cache-dtype", "", "auto", "type of the KV cache; auto: bfloat16"},
		{"graphs", "", "full", "full, piecewise, or none for --enforce-eager"},
		{"gpu-memory-utilization", "", "0.9", "share of a GPU's memory that the engine takes"},
		{"max-model-len", "", "32768", "longest sequence in tokens; left out, the model's own"},
		{"engine", "", "vllm", "vllm or sglang"},
		{"scheduler-profile", "", "vllm", "whose rules the scheduler follows, by release"},
		{"num-gpu-blocks", "", "16384", "KV blocks; left out, they follow from gpu and model"},
		{"block-size", "", "16", "tokens per KV block"},
		{"max-num-seqs", "", "1024", "requests a worker runs at once; left out, what vLLM's server takes on the GPU"},
		{"max-num-batched-tokens", "", "8192", "tokens a worker computes per pass; left out likewise"},
		{"enable-prefix-caching", "", "true", "reuse KV blocks across requests"},
		{"enable-chunked-prefill", "", "true", "cut prompts that exceed what is left of a pass"},
		{"max-running-requests", "", "", "requests an SGLang worker runs at once"},
		{"chunked-prefill-size", "", "", "prompt tokens of one request that an SGLang worker computes per pass"},
		{"max-prefill-tokens", "", "", "prompt tokens that an SGLang worker computes per pass"},
		{"prefill-max-requests", "", "", "requests of an SGLang worker's pass that computes prompts"},
		{"schedule-policy", "", "", "order of an SGLang worker's queue"},
		{"schedule-conservativeness", "", "", "factor on the memory that an SGLang worker reserves for answers"},
		{"enable-mixed-chunk", "", "", "running requests of SGLang decode in the passes that compute prompts"},
		{"overlap", "", "", "an SGLang worker plans a pass while the one before it runs"},
		{"timing-profile", "", "profile.json", "measured pass times, in place of data sheets: replay calibrate fits them"},
	}
}

// Flags returns the names of all settings.
func Flags() []string {
	var names []string
	for _, s := range Settings() {
		names = append(names, s.Flag)
	}
	return names
}

// Fill sets what is known, and what holds otherwise where that is known, by flag.
func Fill(settings []Setting, known, usual map[string]string) []Setting {
	filled := slices.Clone(settings)
	for i := range filled {
		if value := known[filled[i].Flag]; value != "" {
			filled[i].Value = value
		}
		if value := usual[filled[i].Flag]; value != "" {
			filled[i].Usual = value
		}
	}
	return filled
}

// Write writes a file with a comment on every line. What is not known is commented out.
func Write(w io.Writer, title string, settings []Setting) error {
	text := &strings.Builder{}
	fmt.Fprintf(text, "# %s\n# replay trace requests.jsonl --deployment FILE --workers 4\n", title)
	for _, s := range settings {
		if s.Value == "" && s.Usual == "" {
			continue
		}
		line := s.Flag + ": " + s.Value
		if s.Value == "" {
			line = "# " + s.Flag + ": " + s.Usual
		}
		fmt.Fprintf(text, "%-40s # %s\n", line, s.Help)
	}
	_, err := io.WriteString(w, text.String())
	return err
}
