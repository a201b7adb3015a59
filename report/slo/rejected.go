package slo

import (
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/requests"
)

// percentileOf returns the percentile of a statistic; ok reports whether it is a percentile.
func percentileOf(statistic string) (p float64, ok bool) {
	if statistic == "median" {
		return 50, true
	}
	p, err := strconv.ParseFloat(strings.TrimPrefix(statistic, "p"), 64)
	return p, err == nil
}

// judgeRejected judges an objective including rejected requests, each of which counts as slower than all answered
// requests. answered and rejected are the numbers of requests, and at returns a percentile of the answered requests.
func (j *Judged) judgeRejected(answered, rejected int, at func(p float64) float64) {
	if rejected == 0 || j.Statistic == "min" {
		return
	}
	p, isPercentile := percentileOf(j.Statistic)
	if isPercentile && answered > 0 {
		p = p * float64(answered+rejected) / float64(answered)
	}
	if !isPercentile || answered == 0 || p > 100 {
		j.Rejected, j.Met = rejected, false
		return
	}
	j.ValueMS = at(p)
	j.Met = j.ValueMS <= j.LimitMS
}

// countRejected returns the number of rejected requests that the report counts.
func countRejected(result *harness.Result) int {
	all := result.CountRejected()
	if all == 0 || all > len(result.Rejected) || !result.Collector.Window().IsSet() {
		return all
	}
	n := 0
	for _, x := range result.Rejected {
		if result.Collector.Window().Holds(result.Collector.Record(x.Request).Arrival) {
			n++
		}
	}
	return n
}

// countRejectedOf returns the times of the answered requests of a class, ascending, and the number of rejected
// requests of the class.
func countRejectedOf(o *Objective, rows []requests.Row) (times []float64, rejected int) {
	var own []requests.Row
	for i := range rows {
		if r := &rows[i]; r.Measured() && o.covers(r) {
			own = append(own, *r)
			if r.Outcome == collector.Rejected.String() {
				rejected++
			}
		}
	}
	times = requests.KnownTimes(own, o.metricOf().At)
	slices.Sort(times)
	return times, rejected
}
