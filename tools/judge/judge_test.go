package main

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/accuracy"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler/silicon"
)

// mayRise is the maximum rise of the mean error over the recorded error, in percentage points.
const mayRise = 0.5

// The mean error of the rows in the repository does not rise.
func TestErrorDoesNotRise(t *testing.T) {
	recorded, err := accuracy.Load()
	if err != nil {
		t.Fatal(err)
	}
	got, err := judgeSample("testdata/silicon_sample.csv", runtime.GOMAXPROCS(0))
	if err != nil {
		t.Fatal(err)
	}
	want := recorded.Published.Sample
	t.Logf("mean TPOT is %.2f %% off on %d servers; recorded are %.2f %%", got.Mean, got.Rows, want.Mean)
	if got.Rows != want.Rows || got.Rows != 60 {
		t.Errorf("%d rows, want the %d that are recorded, which are 60", got.Rows, want.Rows)
	}
	if got.Mean > want.Mean+mayRise {
		t.Errorf("mean TPOT is %.2f %% off, want at most %.2f %%: make accuracy records a new error", got.Mean, want.Mean+mayRise)
	}
}

// The rows in the repository pass all filters that do not require the whole file.
func TestSamplePassesFilters(t *testing.T) {
	rows, err := readFile("testdata/silicon_sample.csv")
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]int{}
	for i := range rows {
		sources[rows[i].Source] = least
	}
	kept, left := filterBy(rows, listFilters(sources))
	if len(kept) != len(rows) || len(left) > 0 {
		t.Errorf("%d of %d rows pass, left out are %v", len(kept), len(rows), left)
	}
}

// Each filter drops only the rows that it is for.
func TestFilters(t *testing.T) {
	rows, err := readFile("testdata/silicon_sample.csv")
	if err != nil {
		t.Fatal(err)
	}
	find := func(model string) Row {
		return rows[slices.IndexFunc(rows, func(r Row) bool { return r.Model == model })]
	}
	dense, experts := find("meta-llama/Llama-3.1-70B"), find("deepseek-ai/DeepSeek-R1")
	for name, c := range map[string]struct {
		of     Row
		change func(r *Row)
	}{
		"separate servers":       {dense, func(r *Row) { r.Mode = "disagg" }},
		"DeepSeek-V3":            {experts, func(r *Row) { r.Model = "deepseek-ai/DeepSeek-V3" }},
		"not simulated":          {dense, func(r *Row) { r.Model = "moonshotai/Kimi-K3" }},
		"more than 8 GPUs":       {dense, func(r *Row) { r.TP = 16 }},
		"wrong parallelism":      {experts, func(r *Row) { r.TP, r.EP, r.MoETP = 8, 8, 1 }},
		"speculative":            {experts, func(r *Row) { r.Engine, r.Release = trtllmEngine, "1.2.0rc6.post3" }},
		"Llama-3.1-8B-FP8":       {dense, func(r *Row) { r.Model = "nvidia/Llama-3.1-8B-Instruct-FP8" }},
		"GB200":                  {dense, func(r *Row) { r.Model, r.GPU = "Qwen/Qwen3-32B", "gb200" }},
		"B300":                   {experts, func(r *Row) { r.GPU, r.TP, r.MoETP, r.EP = "b300_sxm", 4, 4, 1 }},
		"source of fewer":        {dense, func(r *Row) { r.Source = "another.csv" }},
		"MoE TP":                 {experts, func(r *Row) { r.TP, r.MoETP, r.EP = 4, 2, 1 }},
		"no TPOT":                {dense, func(r *Row) { r.TPOT = 0 }},
		"below the data sheet":   {dense, func(r *Row) { r.TPOT = 0.5 }},
		"the time of the answer": {dense, func(r *Row) { r.TTFT = 3 * r.TPOT * float64(r.Output) }},
		"no room":                {experts, func(r *Row) { r.GPU, r.TP, r.MoETP, r.EP, r.TPOT = "h100_sxm", 1, 1, 1, 1000 }},
	} {
		of, sources := c.of, map[string]int{c.of.Source: least}
		if kept, left := filterBy([]Row{of}, listFilters(sources)); len(kept) != 1 {
			t.Errorf("%s: unchanged it is left out: %v", name, left)
		}
		c.change(&of)
		if kept, left := filterBy([]Row{of}, listFilters(sources)); len(kept) != 0 || len(left) != 1 || left[0].Rows != 1 || !strings.Contains(left[0].Reason, name) {
			t.Errorf("%s: left out are %v, want 1 for this reason", name, left)
		}
	}
}

// A configuration with several measurements counts once, with their medians.
func TestRepeatsCountOnce(t *testing.T) {
	rows, err := readFile("testdata/silicon_sample.csv")
	if err != nil {
		t.Fatal(err)
	}
	same := []Row{rows[0], rows[1], rows[0], rows[0]}
	same[0].TPOT, same[2].TPOT, same[3].TPOT = 10, 14, 11
	merged := mergeRepeats(same)
	if len(merged) != 2 {
		t.Fatalf("%d rows, want 2", len(merged))
	}
	if i := slices.IndexFunc(merged, func(r Row) bool { return r.Repeats == 3 }); i < 0 || merged[i].TPOT != 11 {
		t.Errorf("%+v, want 3 repeats with a median of 11", merged)
	}
}

// InferenceX draws lengths from 0.8 to 1 times those of the row, and sends ten requests per request in flight. All
// other rows have exact lengths. The passes are those of the row's engine.
func TestRowsAsReplays(t *testing.T) {
	rows, err := readFile("testdata/silicon_sample.csv")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[bool]int{}
	for i := range rows {
		r := &rows[i]
		spec, err := r.spec()
		if err != nil {
			t.Fatal(err)
		}
		w, err := r.workload(t.Context(), &spec)
		if err != nil {
			t.Fatal(err)
		}
		seen[r.Drawn()]++
		low, high := int32(r.Input), int32(r.Input)
		if r.Drawn() {
			low = high * 4 / 5
			if len(w.Turns) != 10*r.Concurrency {
				t.Errorf("%d requests at %d in flight", len(w.Turns), r.Concurrency)
			}
		}
		sum := 0.0
		for _, turn := range w.Turns {
			if sum += float64(turn.Input); turn.Input < low || turn.Input > high {
				t.Fatalf("a prompt of %d tokens, want %d to %d", turn.Input, low, high)
			}
		}
		if mean := sum / float64(len(w.Turns)); mean < 0.98*float64(low+high)/2 || mean > 1.02*float64(low+high)/2 {
			t.Errorf("prompts of %.0f tokens on average, want %d to %d", mean, low, high)
		}
		k, err := kindOf(&spec)
		if err != nil || k.Engine != r.Engine {
			t.Errorf("%v, %v of a row of %s", k, err, r.Engine)
		}
	}
	if seen[true] < 20 || seen[false] < 10 {
		t.Errorf("%v rows with drawn lengths, want both kinds", seen)
	}
}

// Rows of TensorRT-LLM use TensorRT-LLM's rules. A pass has room for the longest prompt and a token of each request.
// Ranks wait for prompts of the remaining ranks.
func TestRowsOfTensorRT(t *testing.T) {
	rows, err := readFile("testdata/silicon_sample.csv")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for i := range rows {
		r := &rows[i]
		if r.Engine != trtllmEngine {
			continue
		}
		seen++
		spec, err := r.spec()
		if err != nil {
			t.Fatal(err)
		}
		a := &spec.Entry().Kinds()[0].Engine
		if own := &a.TRTLLM; a.Engine != engineargs.TRTLLM || own.MaxTokens < r.Input+r.Concurrency || own.Balance.On != (r.DP > 1) || a.PrefixCaching {
			t.Errorf("%s, %d in flight: %v, %+v", r.Model, r.Concurrency, a.Engine, own)
		}
	}
	if seen < 10 {
		t.Errorf("%d rows of TensorRT-LLM, want at least 10", seen)
	}
	r := Row{Engine: trtllmEngine, Model: "nvidia/DeepSeek-R1-NVFP4", GPU: "b200_sxm", Precision: "fp4", TP: 1, DP: 8, MoETP: 1, EP: 8, Input: 1024, Output: 1024, Concurrency: 64}
	spec, err := r.spec()
	if err != nil {
		t.Fatal(err)
	}
	if a := &spec.Entry().Kinds()[0].Engine; a.DPSize != 8 || !a.TRTLLM.Balance.On {
		t.Errorf("%d ranks, %+v", a.DPSize, a.TRTLLM.Balance)
	}
}

// Rows of gap analyses are rows of InferenceX.
func TestDrawnRows(t *testing.T) {
	for source, want := range map[string]bool{
		"db-dump/2026-04-27": true, "2026-03-25.csv": true, "kimi-k2.5-gap-analysis.csv": true, "h100_sxm/vllm/0.12.0/Qwen_Qwen3-32B.csv": false,
	} {
		if r := (Row{Source: source}); r.Drawn() != want {
			t.Errorf("%s: %v, want %v", source, r.Drawn(), want)
		}
	}
}

// The CSV file has one server with its errors per line.
func TestRowsAreWritten(t *testing.T) {
	o := Outcome{Row: Row{Engine: vllmEngine, Model: "Qwen/Qwen3-32B", GPU: "h100_sxm", Input: 1024, Output: 128, Concurrency: 8, TP: 1, TPOT: 12.5}, SimulatedTPOT: 12.25}
	var out strings.Builder
	if err := encodeRows(&out, []Outcome{o}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[1], "vllm,,qwen3-32b,h100,,1024,128,8,1,0,0,0,,0,0,12.5,12.25,") || strings.Count(lines[0], ",") != strings.Count(lines[1], ",") {
		t.Errorf("%q", lines)
	}
}

// Errors of Read name the header, the missing column, or the line and the column.
func TestBadFiles(t *testing.T) {
	text, err := os.ReadFile("testdata/silicon_sample.csv")
	if err != nil {
		t.Fatal(err)
	}
	for bad, want := range map[string]string{
		"": "header", strings.Replace(string(text), "isl", "other", 1): "no column isl",
		strings.Replace(string(text), ",agg,1000,", ",agg,-1,", 1): "line 2: isl",
	} {
		if _, err := Read(strings.NewReader(bad)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Mean TPOT computed from its parts equals the mean TPOT of the replay, also with different corrections.
func TestPartsAddUp(t *testing.T) {
	rows, err := readFile("testdata/silicon_sample.csv")
	if err != nil {
		t.Fatal(err)
	}
	all, err := Replay(t.Context(), rows[:30], runtime.GOMAXPROCS(0))
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		o := &all[i]
		if off := o.parts.tpot(&o.corrections)/o.SimulatedTPOT - 1; off < -0.03 || off > 0.03 {
			t.Errorf("%s %s, %d in flight: the parts are %.1f %% off", o.Engine, o.Model, o.Concurrency, 100*off)
		}
	}
}

// A fit finds the corrections that produced the times.
func TestFitFindsCorrections(t *testing.T) {
	want := silicon.Corrections{Prompts: 1.17, Prompt: 12, Base: 0.83, Request: 0.013}
	all := make([]Outcome, 60)
	for i := range all {
		n := float64(i%12 + 1)
		all[i].parts = parts{plain: 5 + n, prompts: float64(i % 5), mixed: float64(i%7) / 50, passes: 1 + float64(i%3)/10, requests: 3 * n * n}
		all[i].TPOT = all[i].parts.tpot(&want)
	}
	if got := fitCorrections(all); meanOff(all, &got) > 0.001 {
		t.Errorf("%+v with an error of %.4f, want %+v", got, meanOff(all, &got), want)
	}
}
