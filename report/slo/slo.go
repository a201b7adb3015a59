// Package slo judges a run by objectives: limits on the times of each request,
// and on percentiles over all of them.
//
// Read slo.go (what an objective is), then judge.go.
package slo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/replay-llm/replay/report/requests"
)

// Objective is a limit on a time.
type Objective struct {
	Metric string // ttft, ttst, tpot, itl or e2e
	// Statistic is that of the report which is limited, as p99; "" limits the
	// time of each request.
	Statistic string
	LimitMS   float64
}

// metric is a time that can be limited.
type metric struct {
	name string
	key  string // of the report's entries
	at   func(*requests.Row) requests.MS
}

// requestMetrics are those of the requests, and itl: of one request it is the mean time
// between two tokens, over all requests the times are pooled.
func requestMetrics() []metric {
	var all []metric
	for _, m := range requests.Metrics() {
		all = append(all, metric{m.Name, m.Key, m.At})
	}
	return append(all, metric{"itl", "itl_ms", func(r *requests.Row) requests.MS { return r.ITLMean }})
}

// statisticNames are those of a report's distributions.
func statisticNames() []string {
	return []string{"mean", "min", "median", "p75", "p90", "p95", "p99", "max"}
}

// Parse reads objectives: ttft=500ms,p99:e2e=10s. A time needs a unit.
func Parse(text string) ([]Objective, error) {
	var all []Objective
	for part := range strings.SplitSeq(text, ",") {
		o, err := parseObjective(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		same := func(b Objective) bool { return b.Metric == o.Metric && b.Statistic == o.Statistic }
		if slices.ContainsFunc(all, same) {
			return nil, fmt.Errorf("%q: a second limit on it, want one", part)
		}
		all = append(all, o)
	}
	return all, nil
}

func parseObjective(part string) (Objective, error) {
	name, limit, ok := strings.Cut(part, "=")
	if !ok {
		return Objective{}, fmt.Errorf("%q, want a metric and a limit, as ttft=500ms", part)
	}
	o := Objective{Metric: name}
	if statistic, metric, ok := strings.Cut(name, ":"); ok {
		o.Statistic, o.Metric = statistic, metric
		if o.Statistic == "p50" {
			o.Statistic = "median"
		}
		if !slices.Contains(statisticNames(), o.Statistic) {
			return o, fmt.Errorf("%q: statistic is %q, want one of %s", part, statistic, strings.Join(statisticNames(), ", "))
		}
	}
	if o.metricOf() == nil {
		var names []string
		for _, m := range requestMetrics() {
			names = append(names, m.name)
		}
		return o, fmt.Errorf("%q: metric is %q, want one of %s", part, o.Metric, strings.Join(names, ", "))
	}
	d, err := time.ParseDuration(limit)
	if err != nil || d <= 0 {
		return o, fmt.Errorf("%q: limit is %q, want a time above 0 with its unit, as 500ms or 2s", part, limit)
	}
	o.LimitMS = float64(d) / float64(time.Millisecond)
	return o, nil
}

func (o *Objective) metricOf() *metric {
	for _, m := range requestMetrics() {
		if m.name == o.Metric {
			return &m
		}
	}
	return nil
}

// keyName is the objective's in keys: ttft, or p99_ttft.
func (o *Objective) keyName() string {
	if o.Statistic == "" {
		return o.Metric
	}
	return o.Statistic + "_" + o.Metric
}

func (o Objective) String() string {
	limit := strconv.FormatFloat(o.LimitMS, 'f', -1, 64) + " ms"
	if o.Statistic == "" {
		return o.Metric + " <= " + limit
	}
	return o.Statistic + " " + o.Metric + " <= " + limit
}
