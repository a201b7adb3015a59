package calibrate

import (
	"errors"
	"math"
	"slices"

	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
)

// addCounted adds the counts in the servers' metrics and in the replay. The times are measured at a server, so they
// do not include the way to the client.
func (c *Compared) addCounted(m *Measured, result *harness.Result) error {
	total, err := measured.SumCounted(m.Counted)
	if total == nil {
		return err
	}
	report := result.Report
	for _, x := range []struct {
		name                string
		measured, simulated float64
	}{
		{"requests", total.Requests, float64(report.Completed)},
		{"prompt tokens", total.Prompts, float64(report.InputTokens)},
		{"generated tokens", total.Generated, float64(report.OutputTokens)},
		{"preemptions", total.Preempted, float64(report.Readmissions)},
	} {
		if !math.IsNaN(x.measured) {
			c.Sides = append(c.Sides, Side{Name: x.name, Count: true, Measured: x.measured, Simulated: x.simulated})
		}
	}
	if total.Queried > 0 && !slices.ContainsFunc(c.Sides, func(s Side) bool { return s.Name == hitRateName }) {
		c.Sides = append(c.Sides, Side{Name: hitRateName, Measured: total.Cached / total.Queried, Simulated: report.PrefixCacheReusedRatio})
	}
	for _, x := range []struct {
		name string
		h    *measured.Histogram
		ms   float64
	}{{"TTFT", total.First, report.TTFT.Mean}, {"ITL", total.Between, report.ITL.Mean}, {"E2E", total.Whole, report.E2E.Mean}} {
		if x.h != nil {
			c.Sides = append(c.Sides, Side{Name: x.name + " mean, server", Measured: x.h.Sum / x.h.Count, Simulated: x.ms / 1000})
		}
	}
	return nil
}

// judgeCounted compares a replay with the histograms of the servers, for runs with unknown single requests.
// judgeCounted compares means. For quantiles, judgeCounted takes the distance from the bucket with the measured
// quantile.
func (m *Measured) judgeCounted(result *harness.Result) ([]Judged, error) {
	total, err := measured.SumCounted(m.Counted)
	if err != nil {
		return nil, err
	}
	report, all := result.Report, Judged{Set: "all, by histograms of the servers"}
	for _, x := range []struct {
		name string
		h    *measured.Histogram
		is   *collector.Distribution
	}{{"TTFT", total.First, &report.TTFT}, {"TPOT", total.Apart, &report.TPOT}, {"ITL", total.Between, &report.ITL}, {"E2E", total.Whole, &report.E2E}} {
		if x.h == nil {
			continue
		}
		mean := x.h.Sum / x.h.Count
		off := func(q, ms float64) float64 {
			least, most := x.h.BoundsOf(q)
			return ms/1000/min(max(ms/1000, least), most) - 1
		}
		all.Errors = append(all.Errors, Errors{
			Metric: x.name, Requests: int(x.h.Count), Measured: mean, Mean: x.is.Mean/1000/mean - 1, Bucketed: true,
			P50: off(0.5, x.is.Median), P90: off(0.9, x.is.P90), P99: off(0.99, x.is.P99),
		})
	}
	if len(all.Errors) == 0 {
		return nil, errors.New("no requests.jsonl or other times of single requests, and no histogram of times in the metrics, must be one of them")
	}
	return []Judged{all}, nil
}
