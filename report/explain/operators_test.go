package explain_test

import (
	"math"
	"testing"

	"github.com/replay-llm/replay/report/explain"
	"github.com/replay-llm/replay/report/ledger"
	"github.com/replay-llm/replay/scheduler/timing"
)

func h100() timing.Source { return timing.ParseSource("silicon:h100/llama-3.1-8b?engine=vllm-0.33") }

// The parts of the passes of each request sum to its time in the passes. The largest parts come first.
func TestOperatorsSumToLedger(t *testing.T) {
	run := recorded(t)
	run.Times = map[string]timing.Source{"aggregated": h100()}
	for id := range run.Rows {
		all, err := run.OperatorsOf(id)
		if err != nil {
			t.Fatal(err)
		}
		if len(all) != 2 {
			t.Fatalf("request %d has operators of %d times, want own prefill and decode", id, len(all))
		}
		parts := &run.Rows[id].Parts
		for i, want := range []float64{float64(parts[ledger.Prefill]), float64(parts[ledger.Alone] + parts[ledger.Stretched])} {
			o, sum := &all[i], 0.0
			for k, p := range o.Parts {
				sum += p.Ms
				if k > 0 && p.Ms > o.Parts[k-1].Ms {
					t.Errorf("request %d, %s: %s stands behind a smaller part", id, o.Of, p.Name)
				}
			}
			if math.Abs(sum-want) > 1e-9*want || math.Abs(o.Ms-want) > 1e-9*want {
				t.Errorf("request %d, %s: parts sum to %g ms of %g, want %g", id, o.Of, sum, o.Ms, want)
			}
		}
	}
}

// The mean pass has the requests that decoded at the same time, up to four on a worker, with their KV cache.
func TestMeanPassOfOperators(t *testing.T) {
	run := recorded(t)
	run.Times = map[string]timing.Source{"aggregated": h100()}
	all, err := run.OperatorsOf(len(run.Rows) / 2)
	if err != nil {
		t.Fatal(err)
	}
	prompt, decode := &all[0], &all[1]
	if prompt.Passes != 1 || prompt.Requests != 1 || prompt.Tokens != 700 || prompt.Past != 0 {
		t.Errorf("a prompt was computed in %d passes of %d prompts, %d tokens each after %d; want 1, 1, 700, 0", prompt.Passes, prompt.Requests, prompt.Tokens, prompt.Past)
	}
	if decode.Passes != 29 || decode.Requests < 3 || decode.Requests > 4 || decode.Tokens < 700 || decode.Tokens > 730 {
		t.Errorf("decoded in %d passes with %d requests of %d tokens; want 29 with 3 to 4 of 700 to 730", decode.Passes, decode.Requests, decode.Tokens)
	}
}

// OperatorsOf returns nothing without measured operators, and without a log of prompts.
func TestNoOperators(t *testing.T) {
	run := recorded(t)
	others := []*explain.Run{run, {Rows: run.Rows, Times: map[string]timing.Source{"aggregated": h100()}}}
	for i, r := range others {
		if all, err := r.OperatorsOf(3); all != nil || err != nil {
			t.Errorf("run %d: operators %v, %v, want none", i, all, err)
		}
	}
}
