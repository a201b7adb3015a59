package html

import (
	"slices"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/report/slo"
)

// objective is a limit on a latency, and its result.
type objective struct {
	Title string `json:"title"`
	// Curve is the distribution that the objective limits: ttft, itl, tpot, ttst or e2e; "": none.
	Curve string `json:"curve"`
	// Share is the point of the curve that the objective limits, as 0.99 for p99; -1: not a point of the curve.
	Share float64 `json:"share"`
	Limit float64 `json:"limit"` // ms
	Each  bool    `json:"each"`  // the objective limits each request, and Value is the share of requests that meet it
	Value float64 `json:"value"` // otherwise that of the statistic, ms
	Want  float64 `json:"want"`  // required share of requests, for an objective that limits each request
	Met   bool    `json:"met"`
	Class string  `json:"class"` // of its requests; "": all
}

// listObjectives returns the objectives of a run.
func listObjectives(report *collector.Report) []objective {
	o := slo.ReadOutcome(report)
	if o == nil {
		return nil
	}
	var all []objective
	singles := 0
	for i := range o.Objectives {
		j := &o.Objectives[i]
		one := objective{Title: j.Title(), Curve: j.Metric, Share: -1, Limit: j.LimitMS, Value: j.ValueMS, Met: j.Met}
		one.Class = j.Class
		if share, ok := shareOfStatistic(j.Statistic); ok {
			one.Share = share
		}
		if j.Statistic == "" {
			singles++
			one.Each, one.Value, one.Want, one.Met = true, j.Attainment, o.Target, j.Attainment >= o.Target
			if j.Metric == "itl" {
				one.Curve = "tpot" // the mean gap of a request, not all gaps pooled
			}
		}
		all = append(all, one)
	}
	if singles > 1 {
		all = append(all, objective{Title: "all that are for each request", Share: -1, Each: true, Value: o.Attainment, Want: o.Target, Met: o.Attainment >= o.Target})
	}
	return all
}

// shareOfStatistic returns the share of a statistic on a curve. ok is false if it is not a point of the curve.
func shareOfStatistic(name string) (share float64, ok bool) {
	share, ok = map[string]float64{
		"min": 0, "median": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p98": 0.98, "p99": 0.99, "p99.9": 0.999, "max": 1,
	}[name]
	return share, ok
}

// curveNames returns the latencies that the page draws: three latencies, and those of the objectives of any run.
func curveNames(runs []Run) []string {
	names := []string{"ttft", "itl", "e2e"}
	for i := range runs {
		for _, o := range listObjectives(runs[i].Report) {
			if o.Curve != "" && o.Class == "" && !slices.Contains(names, o.Curve) {
				names = append(names, o.Curve)
			}
		}
	}
	return names
}

// valueOf returns the function that returns a request's latency of a curve.
func valueOf(curve string) func(*requests.Row) requests.MS {
	all := requests.Metrics()
	if i := slices.IndexFunc(all, func(m requests.Metric) bool { return m.Name == curve }); i >= 0 {
		return all[i].At
	}
	return func(r *requests.Row) requests.MS { return r.ITLMean }
}
