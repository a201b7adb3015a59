package engineargs

import (
	"strings"
	"testing"

	"github.com/replay-llm/replay/scheduler/vllm/releases"
)

// TestServerStarts compares the settings that a vLLM server rejects at its start with the errors of its releases'
// configuration classes.
func TestServerStarts(t *testing.T) {
	const drafts = `"speculative_config":{"method":"eagle","num_speculative_tokens":3,"acceptance_rate":0.5}`
	const draftModel = `"speculative_config":{"method":"draft_model","num_speculative_tokens":3,"acceptance_rate":0.5}`
	const long = `"scheduler_rules":{"long_prefill_tokens":`
	for _, c := range []struct {
		text    string
		key     string   // rejected key; "" if all profiles accept it
		refused []string // profiles that reject the key; nil: all
	}{
		{`"max_num_batched_tokens":64,"max_num_seqs":65`, "max_num_batched_tokens", nil},
		{`"max_num_batched_tokens":64,"max_num_seqs":64`, "", nil},
		{`"max_num_seqs":8193`, "max_num_batched_tokens", nil},
		{`"max_num_batched_tokens":64`, "", nil},
		{`"max_num_batched_tokens":null,"max_num_seqs":null`, "", nil},
		{`"max_model_len":4096,"max_num_batched_tokens":4095,"enable_chunked_prefill":false`, "max_num_batched_tokens", nil},
		{`"max_model_len":4096,"max_num_batched_tokens":4096,"enable_chunked_prefill":false`, "", nil},
		{`"max_model_len":10000,"enable_chunked_prefill":false`, "", nil},
		{`"max_model_len":4096,"max_num_batched_tokens":512`, "", nil},
		{`"max_num_active_seqs":8`, "max_num_active_seqs", []string{"vllm-0.19", "vllm-0.20", "vllm-0.24", "vllm-0.27", "vllm-0.28", "vllm-0.30"}},
		{`"max_num_active_seqs":9,"max_num_seqs":8`, "max_num_active_seqs", nil},
		{`"max_model_len":100,` + long + `101}`, "scheduler_rules.long_prefill_tokens", []string{"vllm-0.28", "vllm-0.30", "vllm-0.31", "vllm-0.32", "vllm-0.33"}},
		{`"max_model_len":100,` + long + `100}`, "", nil},
		{drafts + `,` + long + `3}`, "scheduler_rules.long_prefill_tokens", []string{"vllm-0.30", "vllm-0.31", "vllm-0.32", "vllm-0.33"}},
		{drafts + `,` + long + `4}`, "", nil},
		{`"speculative_config":{"method":"medusa","num_speculative_tokens":3,"acceptance_rate":0.5}`, "speculative_config.method", []string{"vllm-0.33"}},
		{drafts + `,"max_num_batched_tokens":3,"max_num_seqs":1`, "max_num_batched_tokens", []string{"vllm-0.33"}},
		{drafts + `,"max_num_batched_tokens":4,"max_num_seqs":1`, "", nil},
		{draftModel + `,"max_num_batched_tokens":64,"max_num_seqs":64`, "max_num_batched_tokens", []string{"vllm-0.20", "vllm-0.24", "vllm-0.27"}}, // 0.19 treats a budget of 0 as none
		{draftModel + `,"max_num_batched_tokens":1,"max_num_seqs":1`, "max_num_batched_tokens", []string{
			"vllm-0.20", "vllm-0.24", "vllm-0.27", "vllm-0.28", "vllm-0.30", "vllm-0.31", "vllm-0.32", "vllm-0.33"}},
		{`"speculative_config":{"method":"ngram","num_speculative_tokens":3,"acceptance_rate":0.5,"prompt_lookup_min":4,"prompt_lookup_max":3}`, "speculative_config.prompt_lookup_min", nil},
		{`"max_model_len":100,"speculative_config":{"method":"eagle","num_speculative_tokens":3,"acceptance_rate":0.5,"max_model_len":101}`, "speculative_config.max_model_len", nil},
	} {
		for _, profile := range releases.Profiles()[1:] {
			if profile == "vllm" {
				continue
			}
			want := c.key != "" && (c.refused == nil || strings.Contains(strings.Join(c.refused, " ")+" ", profile+" "))
			_, err := Parse([]byte(`{"scheduler_profile":"`+profile+`",`+c.text+`}`), Options{})
			if (err != nil) != want || err != nil && !strings.HasPrefix(err.Error(), c.key+" is ") {
				t.Errorf("%s: %s: %v, want it refused: %v, for %s", profile, c.text, err, want, c.key)
			}
		}
	}
	if _, err := Parse([]byte(`{"max_num_batched_tokens":64,"max_num_seqs":65}`), Options{}); err != nil {
		t.Errorf("by the reference's rules: %v", err)
	}
}

// TestServerCompletes sets missing limits from the given limits, as a vLLM server does.
func TestServerCompletes(t *testing.T) {
	for text, want := range map[string][2]int{ // tokens of a pass, number of requests
		`{}`:                                     {8192, 256},
		`{"max_num_batched_tokens":100}`:         {100, 100},
		`{"max_num_batched_tokens":300}`:         {300, 256},
		`{"max_num_seqs":8,"max_model_len":100}`: {800, 8},
		`{"max_model_len":20}`:                   {5120, 256},
		`{"max_model_len":10000,"enable_chunked_prefill":false}`:              {10000, 256},
		`{"max_num_seqs":1,"max_model_len":100,"max_num_batched_tokens":500}`: {500, 1},
	} {
		a, err := Parse([]byte(text), Options{Set: []Setting{{Key: "scheduler_profile", Value: `"vllm"`}}})
		if err != nil || [2]int{a.MaxBatchedTokens, a.MaxSeqs} != want {
			t.Errorf("%s: %d tokens and %d requests, %v, want %v", text, a.MaxBatchedTokens, a.MaxSeqs, err, want)
		}
	}
}
