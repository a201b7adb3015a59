package registry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/tables"
	"github.com/replay-llm/replay/loadgen/formats/texts"
)

// textFormats are those in which prompts are always texts.
func textFormats() []string {
	return []string{"mooncake-text", "aiperf-inputs", "aiperf-turns", "vllm-custom"}
}

// countedFormats are those whose texts a tokenizer can count.
func countedFormats() []string {
	return append([]string{"genai-perf", "inference-perf", texts.VLLMLog}, textFormats()...)
}

// HasTexts reports whether the trace at path is of a format of which a tokenizer can
// count the texts. Standard input is not looked at.
func HasTexts(path string) bool {
	if path == "-" {
		return false
	}
	s, err := OpenPath(path, nil, formats.Options{})
	if err != nil {
		return false
	}
	s.Close()
	return slices.Contains(countedFormats(), s.Format)
}

// refuseUnused refuses options without a use, if that is asked for.
func refuseUnused(s *formats.Stream) error {
	if !s.Options.Strict {
		return nil
	}
	o := &s.Options
	always := textFormats()
	for _, c := range []struct {
		set     bool
		what    string
		formats []string
	}{
		{o.Model != "", "a model", []string{"burstgpt"}},
		{o.Jitter != "", "jitter", []string{"burstgpt", texts.VLLMLog}},
		{o.Run != 0, "the number of a run", []string{"vllm-bench", "sglang-bench", "genai-perf", "guidellm"}},
		{o.ImageTokens != 0, "the size of images", []string{"azure-mm"}},
		{o.PriorityFrom != "", "the field of a priority", []string{"mooncake", "mooncake-delta"}},
		{o.Rate != 0, "a rate of arrivals", append([]string{"vidur-lengths", "weka", tables.Columns, "servegen", "vllm-bench", "sglang-bench"}, always...)},
		{o.From != 0 || o.To != 0, "a span", []string{"servegen"}},
		{o.TokensPerByte != 0, "the length of texts", countedFormats()},
		{o.Tokenizer != "", "a tokenizer", countedFormats()},
		{o.OutputTokens != 0, "the length of answers", append([]string{texts.VLLMLog}, always...)},
		{o.DAG != "" && o.DAG != "graph", "what to do with a DAG", []string{formats.Tasks, "agentic_mooncake", "dynamo", "weka", "guidellm"}},
		{o.DAG == "graph", "a graph", []string{formats.Tasks, "agentic_mooncake", "dynamo", "weka", "bailian"}},
	} {
		if c.set && !slices.Contains(c.formats, s.Format) {
			return fmt.Errorf("%s: is %s, in which %s changes nothing; want it with %s", s.Name, s.Format, c.what, strings.Join(c.formats, ", "))
		}
	}
	return nil
}
