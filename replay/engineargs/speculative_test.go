package engineargs

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang"
	"github.com/replay-llm/replay/scheduler/vllm"
)

// TestSpeculative parses vLLM's speculative_config and checks the acceptance of drafts.
func TestSpeculative(t *testing.T) {
	cases := []struct {
		text  string
		want  vllm.Speculation
		async bool // with the newest release
	}{
		{`{"method":"eagle3","model":"a/b","num_speculative_tokens":2,"acceptance_rate":0.5}`,
			vllm.Speculation{Method: scheduler.ByHead, Tokens: 2, Acceptance: scheduler.Acceptance{Low: 0.5, High: 0.5}}, true},
		{`{"model":"a/b","num_speculative_tokens":2,"acceptance_rate":[0.5,0.75],"acceptance_seed":7,"draft_tensor_parallel_size":1}`,
			vllm.Speculation{Method: scheduler.ByDraftModel, Tokens: 2, Acceptance: scheduler.Acceptance{Low: 0.5, High: 0.75, Seed: 7}}, true},
		{`{"method":"ngram","num_speculative_tokens":3,"prompt_lookup_max":4,"rejection_sample_method":"synthetic","synthetic_acceptance_rates":[0.5,0.25,0]}`,
			vllm.Speculation{Method: scheduler.ByLookup, Tokens: 3, Acceptance: scheduler.Acceptance{Rates: []float64{0.5, 0.5, 0}}}, true},
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

// TestMethods compares the scheduling with each method of drafts with vLLM's configuration, by release:
// testdata/vllm/methods.jsonl.
func TestMethods(t *testing.T) {
	file, err := os.Open("../../testdata/vllm/methods.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows := 0
	for lines := bufio.NewScanner(file); lines.Scan(); rows++ {
		var row struct {
			Release, Method string
			Set             *bool
			Async           bool `json:"async_scheduling"`
			Budget          int
			Refused         bool
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		rules := "{}"
		if row.Set != nil {
			rules = fmt.Sprintf(`{"two_in_flight":%t}`, *row.Set)
		}
		a, err := Parse([]byte(fmt.Sprintf(`{"scheduler_profile":"vllm-%s","scheduler_rules":%s,"speculative_config":{"method":%q,"num_speculative_tokens":3,"acceptance_rate":0.5}}`,
			row.Release, rules, row.Method)), Options{})
		if row.Refused != (err != nil) {
			t.Errorf("%s: %v", lines.Text(), err)
		}
		if row.Refused || err != nil {
			continue
		}
		c := vllm.Config{Settings: vllm.Settings{MaxBatchedTokens: a.MaxBatchedTokens, MaxSeqs: a.MaxSeqs, Rules: a.Rules}, Speculation: &a.Speculative.Speculation}
		if a.Uncertain != "" || a.Rules.TwoInFlight != row.Async || c.Budget() != row.Budget {
			t.Errorf("%s: asynchronous %t, budget %d; %s", lines.Text(), a.Rules.TwoInFlight, c.Budget(), a.Uncertain)
		}
	}
	if rows < 9*24 {
		t.Errorf("%d rows", rows)
	}
}

// TestUnknownRelease checks the rules of a release that was not compared, and that a warning names the unknown parts.
func TestUnknownRelease(t *testing.T) {
	for name, want := range map[string][]string{
		"vllm-0.29.1": {"0.29.1", "vllm-0.28", "pad_alone"},
		"vllm-0.33.4": {"0.33.4", "vllm-0.33"},
		"vllm-0.11.2": {"0.11.2", "vllm-0.19"},
		"vllm-0.31.0": nil, "vllm-0.27.1": nil, "vllm": nil, "vllm-0.33": nil,
	} {
		a, err := Parse([]byte(`{"scheduler_profile":"`+name+`"}`), Options{})
		if err != nil || (len(want) == 0) != (len(a.Warnings()) == 0) {
			t.Errorf("%s: %v, %v", name, err, a.Warnings())
		}
		for _, part := range want {
			if !strings.Contains(strings.Join(a.Warnings(), " "), part) {
				t.Errorf("%s: %v, want %s in it", name, a.Warnings(), part)
			}
		}
	}
}

// TestPrefillIntervalOfOld checks the warning that releases before 0.33 ignore the interval for a single engine.
func TestPrefillIntervalOfOld(t *testing.T) {
	for profile, warns := range map[string]bool{"vllm-0.24": true, "vllm-0.32": true, "vllm-0.33": false} {
		a, err := Parse([]byte(`{"prefill_schedule_interval":4,"scheduler_profile":"`+profile+`"}`), Options{})
		if err != nil || warns != (len(a.Warnings()) == 1) || a.Rules.OwnInterval == warns {
			t.Errorf("%s: %v, %v", profile, a.Warnings(), err)
		}
	}
	if _, err := Parse([]byte(`{"prefill_schedule_interval":2,"dp_size":2,"scheduler_profile":"vllm"}`), Options{}); err == nil || !strings.Contains(err.Error(), "must be 1 with dp_size") {
		t.Errorf("ranks: %v", err)
	}
}

// TestSpeculativeAlone rejects drafts with settings that were never compared with vLLM.
func TestSpeculativeAlone(t *testing.T) {
	for beside, want := range map[string]string{
		`"scheduler_rules":{"last_victim":false}`: "requires scheduler_rules in which mixed_step",
		`"num_g2_blocks":5`:                       "not supported with num_g2_blocks",
		`"sliding_window":128`:                    "not supported with sliding_window",
	} {
		_, err := Parse([]byte(`{"scheduler_profile":"vllm","speculative_config":{"num_speculative_tokens":2,"acceptance_rate":1},`+beside+`}`), Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", beside, err, want)
		}
	}
}

// TestSGLangDrafts parses SGLang's arguments, with its server's defaults, and the acceptance of speculative_config.
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
		`"speculative_config":{"acceptance_rate":1}`:                                                        "requires sglang.speculative_algorithm",
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
