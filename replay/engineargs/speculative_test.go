package engineargs

import (
	"reflect"
	"strings"
	"testing"

	"github.com/replay-llm/replay/scheduler/vllm"
)

// TestSpeculative reads vLLM's speculative_config, with how many drafts are accepted.
func TestSpeculative(t *testing.T) {
	cases := []struct {
		text  string
		want  vllm.Speculation
		async bool
	}{
		{`{"method":"eagle3","model":"a/b","num_speculative_tokens":2,"acceptance_rate":0.5}`,
			vllm.Speculation{Method: vllm.ByHead, Tokens: 2, Low: 0.5, High: 0.5}, true},
		{`{"model":"a/b","num_speculative_tokens":2,"acceptance_rate":[0.5,0.75],"acceptance_seed":7,"draft_tensor_parallel_size":1}`,
			vllm.Speculation{Method: vllm.ByDraftModel, Tokens: 2, Low: 0.5, High: 0.75, Seed: 7}, true},
		{`{"method":"ngram","num_speculative_tokens":3,"prompt_lookup_max":4,"rejection_sample_method":"synthetic","synthetic_acceptance_rates":[0.5,0.25,0]}`,
			vllm.Speculation{Method: vllm.ByLookup, Tokens: 3, Rates: []float64{0.5, 0.5, 0}}, false},
		{`{"method":"mtp","num_speculative_tokens":3,"synthetic_acceptance_length":2.5}`,
			vllm.Speculation{Method: vllm.ByHead, Tokens: 3, Rates: []float64{1, 0.5, 0}}, true},
	}
	for _, c := range cases {
		a, err := Parse([]byte(`{"scheduler_profile":"vllm","speculative_config":`+c.text+`}`), Options{})
		if err != nil || !reflect.DeepEqual(a.Speculative.Speculation, c.want) || a.Rules.TwoInFlight != c.async {
			t.Errorf("%s: %+v, %v, want %+v", c.text, a.Speculative, err, c.want)
		}
	}
}

// TestSpeculativeAlone refuses drafts beside what they were never held against vLLM with.
func TestSpeculativeAlone(t *testing.T) {
	for beside, want := range map[string]string{
		`"scheduler_rules":{"last_victim":false}`: "want scheduler_rules with it in which mixed_step",
		`"num_g2_blocks":5`:                       "want no num_g2_blocks with it",
		`"sliding_window":128`:                    "want no sliding_window with it",
	} {
		_, err := Parse([]byte(`{"scheduler_profile":"vllm","speculative_config":{"num_speculative_tokens":2,"acceptance_rate":1},`+beside+`}`), Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", beside, err, want)
		}
	}
}
