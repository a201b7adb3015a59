package collector

import (
	"slices"
	"strings"
)

// Metric is a value of a report, or a distribution with a value for each Statistic.
type Metric struct {
	Key   string // in JSON; for a distribution, the part after the name of the statistic and an underscore
	Label string // in the table of a report; "": not in the table
	Line  int    // line number in that table
	Short string // in narrow tables; "": Head
	Head  [2]string
	Unit  string
	Text  string // definition of the metric; "": not in every report
	// Wall reports whether the metric depends on real time. Higher reports whether higher values are better.
	Wall, Higher bool
	// at returns a pointer to the value in a report: an *int, a *float64 or a *Distribution.
	at func(*Report) any
}

// Metrics returns the metrics that every report has, in the order of the documentation, then further metrics of
// tables.
func Metrics() []Metric {
	return []Metric{
		{Key: "num_requests", Unit: "requests", Text: "number of requests that arrived", at: func(r *Report) any { return &r.Requests }},
		{Key: "completed_requests", Label: "Request Count (requests)", Line: 9, Head: [2]string{"", "completed"}, Unit: "requests", Text: "number of completed requests that the report counts",
			at: func(r *Report) any { return &r.Completed }},
		{Key: "total_input_tokens", Unit: "tokens", Text: "number of prompt tokens, cached tokens included", at: func(r *Report) any { return &r.InputTokens }},
		{Key: "total_output_tokens", Unit: "tokens", Text: "requested answer tokens; for clipped answers, the generated tokens", at: func(r *Report) any { return &r.OutputTokens }},
		{Key: "processed_tokens", Unit: "tokens", Text: "`total_input_tokens` plus `total_output_tokens`", at: func(r *Report) any { return &r.ProcessedTokens }},
		{Key: "duration_ms", Unit: "ms", Text: "time of the last token, from time 0 of the run", at: func(r *Report) any { return &r.DurationMS }},
		{Key: "wall_time_ms", Unit: "ms", Text: "real time that the simulation took; differs between runs", Wall: true, at: func(r *Report) any { return &r.WallMS }},
		{Key: "request_throughput_rps", Label: "Request Throughput (requests/sec)", Line: 8, Unit: "requests/s", Text: "`completed_requests` per second of `duration_ms`", Higher: true,
			at: func(r *Report) any { return &r.RequestsPerS }},
		{Key: "input_throughput_tok_s", Unit: "tokens/s", Text: "`total_input_tokens` per second of `duration_ms`", Higher: true, at: func(r *Report) any { return &r.InputTokensPerS }},
		{Key: "output_throughput_tok_s", Label: "Output Token Throughput (tokens/sec)", Line: 7, Short: "out tok/s", Head: [2]string{"output", "tok/s"},
			Unit: "tokens/s", Text: "`total_output_tokens` per second of `duration_ms`", Higher: true, at: func(r *Report) any { return &r.OutputTokensPerS }},
		{Key: "total_throughput_tok_s", Unit: "tokens/s", Text: "`processed_tokens` per second of `duration_ms`", Higher: true, at: func(r *Report) any { return &r.TotalTokensPerS }},
		{Key: "processed_tokens_per_s", Unit: "tokens/s", Text: "`processed_tokens` per second of `wall_time_ms`; differs between runs", Wall: true, Higher: true,
			at: func(r *Report) any { return &r.ProcessedTokensPerS }},
		{Key: "processed_output_tokens_per_s", Unit: "tokens/s", Text: "`total_output_tokens` per second of `wall_time_ms`; differs between runs", Wall: true, Higher: true,
			at: func(r *Report) any { return &r.ProcessedOutputPerS }},
		{Key: "prefix_cache_reused_ratio", Head: [2]string{"hit", "rate"}, Unit: "0 to 1", Text: "prompt tokens found in a prefix cache, divided by `total_input_tokens`", Higher: true,
			at: func(r *Report) any { return &r.PrefixCacheReusedRatio }},

		{Key: "ttft_ms", Label: "Time to First Token (ms)", Line: 1, Head: [2]string{"TTFT"}, Unit: "ms", Text: "TTFT (time from arrival to first token); one sample per request",
			at: func(r *Report) any { return &r.TTFT }},
		{Key: "ttst_ms", Label: "Time to Second Token (ms)", Line: 2, Head: [2]string{"TTST"}, Unit: "ms", Text: "TTST (time from first to second token); one sample per request with at least two tokens",
			at: func(r *Report) any { return &r.TTST }},
		{Key: "tpot_ms", Label: ownLabel, Line: 5, Head: [2]string{"TPOT"}, Unit: "ms",
			Text: "TPOT (mean time per token after the first, (last − first) / (tokens − 1)); one sample per request with at least two tokens", at: func(r *Report) any { return &r.TPOT }},
		{Key: "itl_ms", Label: "Inter Token Latency (ms)", Line: 4, Head: [2]string{"ITL"}, Unit: "ms",
			Text: "ITL (time between two successive tokens of a request); samples of all requests are pooled. Tokens that arrive together, such as accepted drafts, count as one chunk, as for clients of vLLM",
			at:   func(r *Report) any { return &r.ITL }},
		{Key: "e2e_latency_ms", Label: "Request Latency (ms)", Line: 3, Head: [2]string{"E2E"}, Unit: "ms", Text: "end-to-end latency (time from arrival to last token); one sample per request", at: func(r *Report) any { return &r.E2E }},
		{Key: "output_token_throughput_per_user", Label: "Output Token Throughput Per User (tokens/sec/user)", Line: 6, Head: [2]string{"OUTPUT"}, Unit: "tokens/s",
			Text: "output tokens per second and user, 1000 / ITL for each ITL above 0 ms", Higher: true, at: func(r *Report) any { return &r.UserThroughput }},

		{Key: "slo_attainment", Short: "SLO met", Higher: true},
		{Key: "goodput_rps", Short: "goodput/s", Higher: true},
		{Key: "rejected_requests", Head: [2]string{"", "rejected"}},
		{Key: "gpus", Head: [2]string{"", "GPUs"}},
		{Key: "cost_per_million_output_tokens", Head: [2]string{"cost/M", "output"}},
		{Key: "saturation", Head: [2]string{"", "load"}},
	}
}

// ownLabel is the label of the distribution that is not in the reference's table.
const ownLabel = "Time per Output Token (ms)"

// Statistic is a statistic of a distribution.
type Statistic struct {
	Key  string // in JSON, before an underscore and the key of the distribution
	Head string // in tables
	Text string // definition of the metric
	at   func(*Distribution) *float64
}

// Statistics returns the statistics of each distribution, in the order of tables.
func Statistics() []Statistic {
	return []Statistic{
		{"mean", "avg", "mean", func(d *Distribution) *float64 { return &d.Mean }},
		{"min", "min", "minimum", func(d *Distribution) *float64 { return &d.Min }},
		{"max", "max", "maximum", func(d *Distribution) *float64 { return &d.Max }},
		{"median", "p50", "50th percentile", func(d *Distribution) *float64 { return &d.Median }},
		{"p75", "p75", "75th percentile", func(d *Distribution) *float64 { return &d.P75 }},
		{"p90", "p90", "90th percentile", func(d *Distribution) *float64 { return &d.P90 }},
		{"p95", "p95", "95th percentile", func(d *Distribution) *float64 { return &d.P95 }},
		{"p99", "p99", "99th percentile", func(d *Distribution) *float64 { return &d.P99 }},
		{"std", "std", "population standard deviation", func(d *Distribution) *float64 { return &d.Std }},
	}
}

// Named returns the metric of a key of a report, and the statistic if the key is a statistic of a distribution. Named
// returns nil for an unknown key.
func Named(key string) (*Metric, *Statistic) {
	all := Metrics()
	if i := slices.IndexFunc(all, func(m Metric) bool { return m.Key == key }); i >= 0 {
		return &all[i], nil
	}
	name, rest, _ := strings.Cut(key, "_")
	statistics := Statistics()
	s := slices.IndexFunc(statistics, func(s Statistic) bool { return s.Key == name })
	i := slices.IndexFunc(all, func(m Metric) bool { return m.Key == rest && m.IsDistribution() })
	if s < 0 || i < 0 {
		return nil, nil
	}
	return &all[i], &statistics[s]
}

// IsDistribution reports whether the metric is a distribution.
func (m *Metric) IsDistribution() bool {
	if m.at == nil {
		return false
	}
	_, is := m.at(new(Report)).(*Distribution)
	return is
}

// WallKeys returns the keys of entries that depend on real time and therefore differ between runs.
func WallKeys() []string {
	var keys []string
	for _, m := range Metrics() {
		if m.Wall {
			keys = append(keys, m.Key)
		}
	}
	return keys
}

// IsWall reports whether a key is one of WallKeys.
func IsWall(key string) bool { return slices.Contains(WallKeys(), key) }

// IsHigherBetter reports whether higher values of an entry are better.
func IsHigherBetter(key string) bool {
	m, _ := Named(key)
	return m != nil && m.Higher
}

// ShortName returns the name of an entry of a report for narrow tables.
func ShortName(key string) string {
	m, statistic := Named(key)
	switch {
	case m == nil:
		return key
	case statistic != nil:
		return statistic.Key + " " + m.Head[0]
	case m.Short != "":
		return m.Short
	}
	return strings.TrimSpace(m.Head[0] + " " + m.Head[1])
}

// HeadOf returns the two header lines of the column of an entry.
func HeadOf(key string) [2]string {
	m, statistic := Named(key)
	if statistic != nil {
		return [2]string{m.Head[0], statistic.Head}
	}
	return m.Head
}
