package requests

import (
	"slices"

	"github.com/replay-llm/replay/replay/collector"
)

// Totals computes report values from rows in order of arrival, to the last bit: counts, and means, minima and maxima
// of times with one sample per request. If the run ended early, the report counts generated answer tokens, not
// requested tokens.
func Totals(rows []Row, early bool) []collector.Field {
	var completed, input, output, reused int
	duration, arrived, whole := MS(0), 0, true
	for i := range rows {
		if rows[i].Measured() {
			arrived++
		}
		whole = whole && rows[i].InWindow == Unjudged
		if r := &rows[i]; r.Counted() && r.Measured() {
			completed++
			input += r.Input
			if output += r.Output; early {
				output -= max(0, r.Output-r.Tokens)
			}
			reused += r.Reused - max(0, int(r.Readmitted))
			duration = max(duration, r.Last)
		}
	}
	ratio := 0.0
	if input > 0 {
		ratio = float64(reused) / float64(input)
	}
	fields := []collector.Field{
		collector.Of("num_requests", arrived),
		collector.Of("completed_requests", completed),
		collector.Of("total_input_tokens", input),
		collector.Of("total_output_tokens", output),
		collector.Of("prefix_cache_reused_ratio", ratio),
	}
	if whole { // the rows do not contain the length of a window
		fields = slices.Insert(fields, 4, collector.Of("duration_ms", float64(duration)))
	}
	for _, m := range Metrics() {
		fields = append(fields, spreadOf(m, rows)...)
	}
	return fields
}

// Metric is a time of every request, or of every request with at least two tokens.
type Metric struct {
	Name string // as in ttft
	Key  string // of the report's entries, as in p99_ttft_ms without p99_
	At   func(*Row) MS
}

// Metrics returns the times with one sample per request.
func Metrics() []Metric {
	return []Metric{
		{"ttft", "ttft_ms", func(r *Row) MS { return r.TTFT }},
		{"ttst", "ttst_ms", func(r *Row) MS { return r.TTST }},
		{"tpot", "tpot_ms", func(r *Row) MS { return r.TPOT }},
		{"e2e", "e2e_latency_ms", func(r *Row) MS { return r.E2E }},
	}
}

func spreadOf(m Metric, rows []Row) []collector.Field {
	d := collector.Describe(KnownTimes(rows, m.At))
	return []collector.Field{collector.Of("mean_"+m.Key, d.Mean), collector.Of("min_"+m.Key, d.Min), collector.Of("max_"+m.Key, d.Max)}
}

// KnownTimes returns the known times of the measured rows, in their order.
func KnownTimes(rows []Row, at func(*Row) MS) []float64 {
	var times []float64
	for i := range rows {
		if ms := at(&rows[i]); ms.Known() && rows[i].Measured() {
			times = append(times, float64(ms))
		}
	}
	return times
}
