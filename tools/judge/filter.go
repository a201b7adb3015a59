package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/replay-llm/replay/scheduler/hardware"
)

// Reason is the reason why rows are dropped, and their number.
type Reason struct {
	Reason string
	Rows   int
}

// least is the minimum number of rows of a source.
const least = 10

// mostWait is the maximum ratio of mean TTFT to the time of the whole answer. In a row with a higher ratio, most
// requests waited in the queue. The batch size of such a row was not the concurrency.
const mostWait = 2.0

// filter drops rows.
type filter struct {
	text string
	out  func(r *Row) bool
}

// listFilters returns the filters in their order. internal/accuracy/tables.txt lists the filters too. The filters
// were fixed before the first fit.
func listFilters(sources map[string]int) []filter {
	deepSeek := func(r *Row) bool { return strings.Contains(r.Model, "DeepSeek") }
	return []filter{
		{"prefill and decode on separate servers", func(r *Row) bool { return r.Mode != "agg" }},
		{"DeepSeek-V3, which repeats rows of DeepSeek-R1", func(r *Row) bool { return r.Model == "deepseek-ai/DeepSeek-V3" }},
		{"model is not simulated", func(r *Row) bool { _, ok := listModels()[r.Model]; return !ok }},
		{"more than 8 GPUs", func(r *Row) bool { return r.GPUs() > 8 && r.TP < 8 || r.TP > 8 || r.DP > 8 }},
		{"TP 8 with attention DP 8 or EP 8: a repeat of another row with wrong parallelism", func(r *Row) bool { return r.TP >= 8 && (r.DP >= 8 || r.EP >= 8) }},
		{"TensorRT-LLM 1.2.0rc6.post3 with DeepSeek: speculative decoding", func(r *Row) bool { return r.Release == "1.2.0rc6.post3" && deepSeek(r) }},
		{"Llama-3.1-8B-FP8 under vLLM: the batch is not the concurrency", func(r *Row) bool { return r.Model == "nvidia/Llama-3.1-8B-Instruct-FP8" }},
		{"Qwen3-32B on GB200: TTFT of 80 s", func(r *Row) bool { return r.GPU == "gb200" && strings.Contains(r.Model, "Qwen3-32B") }},
		{"DeepSeek on B300 with TP 4: short of KV cache", func(r *Row) bool { return r.GPU == "b300_sxm" && deepSeek(r) && r.TP == 4 }},
		{fmt.Sprintf("source of fewer than %d rows", least), func(r *Row) bool { return sources[r.Source] < least }},
		{"TP times attention DP is not MoE TP times EP", func(r *Row) bool { return r.hasExperts() && r.GPUs() != r.MoETP*r.EP }},
		{"no TPOT", func(r *Row) bool { return r.TPOT == 0 }},
		{"TPOT below the data sheet's time to read weights and KV cache: the batch is not the concurrency", func(r *Row) bool { ms, err := r.readMs(); return err == nil && r.TPOT < ms }},
		{fmt.Sprintf("mean TTFT above %g times the time of the answer: the batch is not the concurrency", mostWait), func(r *Row) bool { return r.TTFT > mostWait*r.TPOT*float64(r.Output) }},
		{"no room for weights and one sequence in the GPUs' memory, by the program's sum", func(r *Row) bool { return r.isUnfit() }},
	}
}

// Filter returns one row for each configuration, in a fixed order. Filter also returns why rows were dropped, in the
// order of the filters.
func Filter(rows []Row) (kept []Row, left []Reason) {
	sources := map[string]int{}
	for i := range rows {
		if rows[i].Mode == "agg" {
			sources[rows[i].Source]++
		}
	}
	return filterBy(rows, listFilters(sources))
}

// filterBy is Filter with the given filters.
func filterBy(rows []Row, filters []filter) (kept []Row, left []Reason) {
	counts := make([]int, len(filters))
	for i := range rows {
		if k := slices.IndexFunc(filters, func(f filter) bool { return f.out(&rows[i]) }); k >= 0 {
			counts[k]++
		} else {
			kept = append(kept, rows[i])
		}
	}
	for k, n := range counts {
		if n > 0 {
			left = append(left, Reason{filters[k].text, n})
		}
	}
	before := len(kept)
	if kept = mergeRepeats(kept); len(kept) < before {
		left = append(left, Reason{"repeats of a configuration, which counts once, by its median", before - len(kept)})
	}
	return kept, left
}

// compareConfigurations orders rows by their configuration. compareConfigurations returns 0 for equal configurations.
func compareConfigurations(a, b Row) int {
	drawn := func(r *Row) int {
		if r.Drawn() {
			return 1
		}
		return 0
	}
	if c := cmp.Or(cmp.Compare(a.Engine, b.Engine), cmp.Compare(a.Model, b.Model), cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.Precision, b.Precision), cmp.Compare(a.Products, b.Products), cmp.Compare(a.Release, b.Release)); c != 0 {
		return c
	}
	return cmp.Or(
		cmp.Compare(a.TP, b.TP), cmp.Compare(a.DP, b.DP), cmp.Compare(a.MoETP, b.MoETP), cmp.Compare(a.EP, b.EP),
		cmp.Compare(a.Input, b.Input), cmp.Compare(a.Output, b.Output), cmp.Compare(a.Concurrency, b.Concurrency), cmp.Compare(drawn(&a), drawn(&b)),
	)
}

// mergeRepeats returns one row for each configuration, with the medians of TTFT and TPOT.
func mergeRepeats(rows []Row) []Row {
	slices.SortStableFunc(rows, compareConfigurations)
	var merged []Row
	for from := 0; from < len(rows); {
		to := from + 1
		for to < len(rows) && compareConfigurations(rows[from], rows[to]) == 0 {
			to++
		}
		row, same := rows[from], rows[from:to]
		row.Repeats = len(same)
		row.TTFT = medianOf(same, func(r *Row) float64 { return r.TTFT })
		row.TPOT = medianOf(same, func(r *Row) float64 { return r.TPOT })
		merged, from = append(merged, row), to
	}
	return merged
}

// medianOf returns the median of a value of rows.
func medianOf(rows []Row, of func(*Row) float64) float64 {
	values := make([]float64, len(rows))
	for i := range rows {
		values[i] = of(&rows[i])
	}
	slices.Sort(values)
	return findQuantile(values, 0.5)
}

// readMs returns the minimum time in ms in which the GPUs can read the data of a pass of the whole batch. readMs uses
// the full bandwidth of the data sheet. The data are weights, the experts for evenly spread tokens, and the KV cache
// of the average decoding requests.
func (r *Row) readMs() (float64, error) {
	f, err := hardware.ParseFit(r.fit())
	if err != nil {
		return 0, err
	}
	answer := r.TPOT * float64(r.Output)
	shrink := 1.0
	if r.Drawn() {
		shrink = 0.9
	}
	decoding := float64(r.Concurrency) * answer / (answer + r.TTFT)
	length := int(shrink * (float64(r.Input) + float64(r.Output)/2))
	f.MaxBatch = 1 // windows keep only the last tokens
	fastest := f.Fastest()
	seconds := fastest.Weights + decoding/float64(f.DP)*f.ReadBytes(length)/(f.GPU.Bandwidth*1e9)
	if e := f.Model.MoE; e != nil {
		missed := math.Pow(1-float64(e.PerToken)/float64(e.Count), decoding) // share of experts without a token
		seconds += fastest.Experts * (1 - missed)
	}
	return 1e3 * seconds, nil
}
