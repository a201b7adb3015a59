package engineargs

import (
	"reflect"
	"strings"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang"
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
			vllm.Speculation{Method: scheduler.ByHead, Tokens: 2, Acceptance: scheduler.Acceptance{Low: 0.5, High: 0.5}}, true},
		{`{"model":"a/b","num_speculative_tokens":2,"acceptance_rate":[0.5,0.75],"acceptance_seed":7,"draft_tensor_parallel_size":1}`,
			vllm.Speculation{Method: scheduler.ByDraftModel, Tokens: 2, Acceptance: scheduler.Acceptance{Low: 0.5, High: 0.75, Seed: 7}}, true},
		{`{"method":"ngram","num_speculative_tokens":3,"prompt_lookup_max":4,"rejection_sample_method":"synthetic","synthetic_acceptance_rates":[0.5,0.25,0]}`,
			vllm.Speculation{Method: scheduler.ByLookup, Tokens: 3, Acceptance: scheduler.Acceptance{Rates: []float64{0.5, 0.5, 0}}}, false},
		{`{"method":"mtp","num_speculative_tokens":3,"synthetic_acceptance_length":2.5}`,
			vllm.Speculation{Method: scheduler.ByHead, Tokens: 3, Acceptance: scheduler.Acceptance{Rates: []float64{1, 0.5, 0}}}, true},
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

// TestSGLangDrafts reads SGLang's own arguments, with its server's defaults, and what
// speculative_config says of acceptance.
func TestSGLangDrafts(t *testing.T) {
	cases := []struct {
		text  string
		want  sglang.Drafts
		seats int
		mixes bool
	}{
		{`"speculative_algorithm":"EAGLE"`, sglang.Drafts{Algorithm: scheduler.ByHead, Steps: 3, TopK: 1, Tokens: 4}, 48, true},
		{`"speculative_algorithm":"NEXTN","speculative_num_steps":2,"speculative_eagle_topk":1,"speculative_num_draft_tokens":9`,
			sglang.Drafts{Algorithm: scheduler.ByHead, Steps: 2, TopK: 1, Tokens: 3}, 48, true},
		{`"speculative_algorithm":"STANDALONE","speculative_num_steps":5,"speculative_eagle_topk":4,"speculative_num_draft_tokens":8,"max_running_requests":7`,
			sglang.Drafts{Algorithm: scheduler.ByDraftModel, Steps: 5, TopK: 4, Tokens: 8}, 7, false},
		{`"speculative_algorithm":"NGRAM"`, sglang.Drafts{Algorithm: scheduler.ByLookup, Steps: 1, TopK: 10, Tokens: 12}, 48, false},
	}
	for _, c := range cases {
		a, err := Parse([]byte(`{"engine_type":"sglang","sglang":{`+c.text+`},"speculative_config":{"acceptance_rate":[0.5,0.75],"draft_ms":2}}`), Options{})
		if err != nil || a.SGLang.Drafts.Drafts != c.want || a.SGLang.MaxRunning != c.seats || a.SGLang.Drafts.Mixes() != c.mixes {
			t.Errorf("%s: %+v, %v, want %+v", c.text, a.SGLang, err, c.want)
		} else if s := a.Speculative; s.Low != 0.5 || s.High != 0.75 || s.Ms != 2 || s.Method != c.want.Algorithm {
			t.Errorf("%s: %+v", c.text, s)
		}
	}
	for text, want := range map[string]string{
		`"speculative_config":{"acceptance_rate":1}`:                                                        "want sglang.speculative_algorithm with it",
		`"sglang":{"speculative_algorithm":"EAGLE"}`:                                                        "speculative_config.acceptance_rate is missing",
		`"sglang":{"speculative_algorithm":"EAGLE"},"speculative_config":{"method":"eagle"}`:                "speculative_config.acceptance_rate is missing",
		`"sglang":{"speculative_algorithm":"EAGLE"},"speculative_config":{"model":"a","acceptance_rate":1}`: "speculative_config.model is",
	} {
		if _, err := Parse([]byte(`{"engine_type":"sglang",`+text+`}`), Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if _, err := Parse([]byte(`{"engine_type":"sglang","sglang":{"speculative_algorithm":"EAGLE"}}`), Options{Compat: true}); err == nil || !strings.Contains(err.Error(), "no compat") {
		t.Errorf("with compat: %v", err)
	}
}
