// Package slo checks a run against objectives: limits on the times of each request, and on percentiles over all
// requests.
//
// Read slo.go (the syntax of objectives), then judge.go, class.go (objectives of one class of requests), read.go
// (objectives in a stored report).
package slo

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/report/requests"
)

// Objective is a limit on a time.
type Objective struct {
	Class  string // of the requests that it is about; "": all
	Metric string // ttft, ttst, tpot, itl or e2e
	// Statistic is the limited statistic of the report, as p99; "" limits the time of each request.
	Statistic string
	LimitMS   float64
}

// metricNamed returns the metric with this name, nil if there is none, and all names. For itl the metric of a request
// is its mean time between two tokens; over all requests the times are pooled.
func metricNamed(name string) (m *requests.Metric, names []string) {
	itl := requests.Metric{Name: "itl", Key: "itl_ms", At: func(r *requests.Row) requests.MS { return r.ITLMean }}
	for _, m := range append(requests.Metrics(), itl) {
		if m.Name == name {
			return &m, nil
		}
		names = append(names, m.Name)
	}
	return nil, names
}

// statisticNames returns the statistics of a report's distributions, and the percentiles that a report gets only if
// an objective needs them.
func statisticNames() []string {
	return []string{"mean", "min", "median", "p75", "p90", "p95", "p98", "p99", "p99.9", "max"}
}

// furtherPercentile returns the percentile of a statistic that reports normally lack; ok reports whether it is one.
func furtherPercentile(statistic string) (p float64, ok bool) {
	p, ok = map[string]float64{"p98": 98, "p99.9": 99.9}[statistic]
	return p, ok
}

// each is the statistic in the name of an objective of a class that limits each request.
const each = "each"

// Parse reads objectives: ttft=500ms,p99:e2e=10s. An objective of a class is critical:p99:ttft=1s, and for each of
// its requests critical:each:ttft=1s. A time must have a unit.
func Parse(text string) ([]Objective, error) {
	var all []Objective
	for part := range strings.SplitSeq(text, ",") {
		o, err := parseObjective(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		same := func(b Objective) bool {
			return b.Class == o.Class && b.Metric == o.Metric && b.Statistic == o.Statistic
		}
		if slices.ContainsFunc(all, same) {
			return nil, excerpt.Errorf("%q: a second limit on it, must be one", part)
		}
		all = append(all, o)
	}
	return all, nil
}

func parseObjective(part string) (Objective, error) {
	name, limit, ok := strings.Cut(part, "=")
	if !ok {
		return Objective{}, excerpt.Errorf("%q, must be a metric and a limit, as ttft=500ms", part)
	}
	o := Objective{Metric: name}
	if class, rest, ok := strings.Cut(name, ":"); ok && strings.Contains(rest, ":") {
		o.Class, name = class, rest
		if err := loadgen.CheckClassName(class); err != nil {
			return o, excerpt.Errorf("%q: %w", part, err)
		}
	}
	if statistic, metric, ok := strings.Cut(name, ":"); ok {
		o.Statistic, o.Metric = statistic, metric
		switch {
		case o.Statistic == "p50":
			o.Statistic = "median"
		case o.Statistic == each && o.Class != "":
			o.Statistic = ""
		}
		if o.Statistic != "" && !slices.Contains(statisticNames(), o.Statistic) {
			return o, excerpt.Errorf("%q: statistic is %q, must be one of %s%s", part, statistic, strings.Join(statisticNames(), ", "), nearest.Ask(statistic, statisticNames()))
		}
	}
	if m, names := metricNamed(o.Metric); m == nil {
		return o, excerpt.Errorf("%q: metric is %q, must be one of %s%s", part, o.Metric, strings.Join(names, ", "), nearest.Ask(o.Metric, names))
	}
	if o.Class != "" && o.Metric == "itl" && o.Statistic != "" {
		return o, excerpt.Errorf("%q: the gaps of a class are not pooled, use tpot", part)
	}
	d, err := time.ParseDuration(limit)
	if err != nil || d <= 0 {
		return o, excerpt.Errorf("%q: limit is %q, must be a time above 0 with its unit, as 500ms or 2s", part, limit)
	}
	o.LimitMS = float64(d) / float64(time.Millisecond)
	return o, nil
}

func (o *Objective) metricOf() *requests.Metric {
	m, _ := metricNamed(o.Metric)
	return m
}

// keyName returns the part of the objective in keys: ttft, or p99_ttft; for a class class_critical_p99_ttft.
func (o *Objective) keyName() string {
	name := o.Metric
	if o.Statistic != "" {
		name = o.Statistic + "_" + name
	}
	if o.Class != "" {
		name = "class_" + o.Class + "_" + name
	}
	return name
}

// reportKey returns the key of a statistic in the report: p99_e2e_latency_ms.
func (o *Objective) reportKey() string {
	if o.Class != "" {
		return "slo_" + o.keyName() + "_value_ms"
	}
	return o.Statistic + "_" + o.metricOf().Key
}

// Name returns the objective without its limit: ttft, p99 ttft, or critical p99 ttft.
func (o *Objective) Name() string {
	var parts []string
	for _, part := range []string{o.Class, o.Statistic, o.Metric} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, " ")
}

func (o Objective) String() string {
	return o.Name() + " <= " + strconv.FormatFloat(o.LimitMS, 'f', -1, 64) + " ms"
}
