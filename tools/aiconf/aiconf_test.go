package main

import (
	"strings"
	"testing"
)

// Only the best rate within the limits counts for each tensor parallelism.
func TestResultsAreRead(t *testing.T) {
	q := listQuestions()[0] // TTFT 1000 ms, TPOT 30 ms
	one, two := map[int]rate{}, map[int]rate{}
	if err := q.readResults([]byte("ttft,tpot,tokens/s/gpu_cluster,tp\n900,29,100,1\n900,29,110,1\n900,31,120,1\n1001,29,130,2\n"), one); err != nil {
		t.Fatal(err)
	}
	if err := q.readResults([]byte("ttft,tpot,tokens/s/gpu_cluster,(d)tp,(p)workers,(d)workers\n900,29,100,2,1,3\n"), two); err != nil {
		t.Fatal(err)
	}
	if got, want := formatRank(one)+"; "+formatRank(two), "1: 110; 2: 100 (1+3)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if err := q.readResults([]byte("ttft,tpot\n900,29\n"), one); err == nil || !strings.Contains(err.Error(), "has no column tokens/s/gpu_cluster") {
		t.Errorf("a file without rates: %v", err)
	}
}

// With even gaps the rate is computed from the gap. A plan without a load within the limits has no rate.
func TestPlansAreRead(t *testing.T) {
	q := listQuestions()[0] // 256 output tokens
	const text = `{"variants":[{"highest_load":{"load":2,"output_throughput_tok_s":5000}}]}`
	for closed, want := range map[bool]float64{true: 5000, false: 5120} {
		if r, err := q.readHighestLoad([]byte(text), closed); err != nil || r.tokens != want {
			t.Errorf("closed loop %v: %v, %v, want %v", closed, r.tokens, err, want)
		}
	}
	if r, err := q.readHighestLoad([]byte(`{"best":null,"variants":[{"highest_load":null}]}`), true); err != nil || r.tokens != 0 {
		t.Errorf("no load meets the limits: %v, %v", r.tokens, err)
	}
}

// Two rankings are the same, a tie of rates at most 5 % apart, or different.
func TestRankingsAreJudged(t *testing.T) {
	rates := func(a, b, c float64) map[int]rate {
		return map[int]rate{1: {tokens: a}, 2: {tokens: b}, 4: {tokens: c}}
	}
	for _, c := range []struct {
		a, b map[int]rate
		want string
	}{
		{rates(3, 2, 1), rates(30, 20, 10), "yes"},
		{rates(3, 2, 1), rates(20, 30, 10), "no"},
		{rates(3, 2, 1), rates(30, 31, 10), "tie"},
		{rates(3, 2, 1), rates(30, 20, 0), "no"},
		{rates(3, 2, 0), rates(30, 20, 10), "no"},
	} {
		if got := judgeRank(c.a, c.b); got != c.want {
			t.Errorf("%s and %s: %s, want %s", formatRank(c.a), formatRank(c.b), got, c.want)
		}
	}
	pools := func(one, two float64) *answer {
		return &answer{one: map[int]rate{1: {tokens: one}}, two: map[int]rate{1: {tokens: two}}}
	}
	for want, b := range map[string]*answer{"yes": pools(100, 200), "tie": pools(100, 96), "no": pools(100, 80)} {
		if got := judgePools(pools(10, 20), b); got != want {
			t.Errorf("two pools against one: %s, want %s", got, want)
		}
	}
}

// One experiment per tensor parallelism sets the correction factors of two pools to 1. Only a tensor parallelism that
// leaves room for two workers counts.
func TestExperimentsAreWritten(t *testing.T) {
	q := listQuestions()[0]
	text := q.writeExperiments()
	for part, want := range map[string]int{"serving_mode: agg": 1, "serving_mode: disagg": 6, "decode_latency_correction: 1.0": 3, "agg_tp_candidates: [1, 2, 4, 8]": 1, "prefill_moe_tp_candidates: [4]": 2} {
		if got := strings.Count(text, part); got != want {
			t.Errorf("%q: %d times, want %d", part, got, want)
		}
	}
}

// A table has a row for each question and a row of counts. All rows have the same number of cells.
func TestTablesAreWritten(t *testing.T) {
	a := func(one, two float64) *answer {
		return &answer{one: map[int]rate{1: {tokens: one}, 2: {tokens: 10}}, two: map[int]rate{1: {tokens: two, split: "3+5"}}}
	}
	text := formatTables([]comparison{{question: listQuestions()[0], peer: a(100, 80), plain: a(100, 120), closed: a(90, 99), even: a(5, 99)}})
	for _, part := range []string{
		"| 1: 100, 2: 10 | 1: 90, 2: 10 | yes | 2: 10, 1: 5 | no |\n| **the same, of 1** |  |  | **1** and 0 ties |  | **0** and 0 ties |\n\n",
		"| 1: 80 (3+5) | 1: 120 (3+5) | 1: 99 (3+5) | yes |\n| **the same, of 1** |  |  |  | **1** and 0 ties |\n\n",
		"| --- | --- | --- | --- | --- |\n",
		"| -20 % | +20 % | +10 % | no |\n| **the same, of 1** |  |  |  | **0** and 0 ties |\n",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
}
