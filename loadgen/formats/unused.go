package formats

import (
	"fmt"
	"slices"
	"strings"
)

// textFormats are those in which prompts are always texts.
func textFormats() []string {
	return []string{"mooncake-text", "aiperf-inputs", "aiperf-turns", "vllm-custom"}
}

// countedFormats are those whose texts a tokenizer can count.
func countedFormats() []string {
	return append([]string{"genai-perf", "inference-perf", vllmLogName}, textFormats()...)
}

// HasTexts reports whether the trace at path is of a format of which a tokenizer can
// count the texts. Standard input is not looked at.
func HasTexts(path string) bool {
	if path == "-" {
		return false
	}
	s, err := OpenPath(path, nil, Options{})
	if err != nil {
		return false
	}
	s.Close()
	return slices.Contains(countedFormats(), s.Format)
}

// refuseUnused refuses options without a use, if that is asked for.
func (s *Stream) refuseUnused() error {
	if !s.o.Strict {
		return nil
	}
	o := &s.o
	texts := textFormats()
	for _, c := range []struct {
		set     bool
		what    string
		formats []string
	}{
		{o.Model != "", "a model", []string{"burstgpt"}},
		{o.Jitter != "", "jitter", []string{"burstgpt", vllmLogName}},
		{o.Run != 0, "the number of a run", []string{"vllm-bench", "sglang-bench", "genai-perf", "guidellm"}},
		{o.ImageTokens != 0, "the size of images", []string{"azure-mm"}},
		{o.PriorityFrom != "", "the field of a priority", []string{"mooncake", "mooncake-delta"}},
		{o.Rate != 0, "a rate of arrivals", append([]string{"vidur-lengths", "weka", columnsFormat, "servegen", "vllm-bench", "sglang-bench"}, texts...)},
		{o.From != 0 || o.To != 0, "a span", []string{"servegen"}},
		{o.TokensPerByte != 0, "the length of texts", countedFormats()},
		{o.Tokenizer != "", "a tokenizer", countedFormats()},
		{o.OutputTokens != 0, "the length of answers", append([]string{vllmLogName}, texts...)},
		{o.DAG != "" && o.DAG != "graph", "what to do with a DAG", []string{tasksFormat, "agentic_mooncake", "dynamo", "weka", "guidellm"}},
		{o.DAG == "graph", "a graph", []string{tasksFormat, "agentic_mooncake", "dynamo", "weka", "bailian"}},
	} {
		if c.set && !slices.Contains(c.formats, s.Format) {
			return fmt.Errorf("%s: is %s, in which %s changes nothing; want it with %s", s.Name, s.Format, c.what, strings.Join(c.formats, ", "))
		}
	}
	return nil
}
