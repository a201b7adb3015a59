package sweeps

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/plan"
)

// A cell is only stopped for an objective that it also misses in a full replay. The report of other cells does not
// change. Limits of the test are at and near the measured values.
func TestEarlyStop(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 38))
	text, err := os.ReadFile("../../../testdata/traces/chat-hour.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	rows := bytes.SplitAfter(text, []byte("\n"))
	whole, early := &CellRunner{}, &CellRunner{EarlyStop: true}
	run := func(r *CellRunner, settings []plan.Setting) (json.RawMessage, map[string]any) {
		report, err := r.Run(t.Context(), &plan.Cell{Settings: settings})
		if err != nil {
			t.Fatal(settings, err)
		}
		var values map[string]any
		if err := json.Unmarshal(report, &values); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"wall_time_ms", "processed_tokens_per_s", "processed_output_tokens_per_s"} {
			delete(values, key)
		}
		return report, values
	}
	stopped, missed := 0, 0
	for range 20 {
		trace := filepath.Join(t.TempDir(), "trace.jsonl")
		if err := os.WriteFile(trace, bytes.Join(rows[:1+rng.IntN(600)], nil), 0o600); err != nil {
			t.Fatal(err)
		}
		settings := []plan.Setting{
			{Name: "trace", Value: trace},
			{Name: "workers", Value: strconv.Itoa(1 + rng.IntN(3))}, {Name: "speedup", Value: strconv.Itoa(1 + rng.IntN(12))},
		}
		_, reached := run(whole, settings)
		for _, o := range [][2]string{{"p99:ttft", "p99_ttft_ms"}, {"p90:e2e", "p90_e2e_latency_ms"}, {"median:tpot", "median_tpot_ms"}, {"max:ttst", "max_ttst_ms"}, {"e2e", "p95_e2e_latency_ms"}} {
			value := reached[o[1]].(float64)
			if value == 0 {
				continue
			}
			for _, limit := range []float64{value * 1.0001, value * 0.9999, value / 3} {
				objective := fmt.Sprintf("%s=%dns", o[0], int64(limit*1e6))
				if int64(limit*1e6) < 1 {
					continue
				}
				judged := append(settings[:len(settings):len(settings)], plan.Setting{Name: "slo", Value: objective}, plan.Setting{Name: "slo-attainment", Value: "0.95"})
				_, want := run(whole, judged)
				_, got := run(early, judged)
				if want["slo_met"] != got["slo_met"] {
					t.Errorf("%v: objectives met is %v when stopped early, %v at the end (%v)", judged, got["slo_met"], want["slo_met"], got[plan.StoppedKey])
				}
				if want["slo_met"] == false {
					missed++
				}
				if got[plan.StoppedKey] != nil {
					stopped++
				} else if fmt.Sprint(want) != fmt.Sprint(got) {
					t.Errorf("%v: a cell that was not stopped has another report", judged)
				}
			}
		}
	}
	if stopped < missed/2 {
		t.Errorf("%d of %d cells that miss an objective were stopped, want half of them at least", stopped, missed)
	}
	t.Logf("%d of %d cells that miss an objective were stopped", stopped, missed)
}
