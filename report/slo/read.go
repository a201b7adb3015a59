package slo

import (
	"strings"

	"github.com/replay-llm/replay/replay/collector"
)

// ReadOutcome returns what Fields wrote into a report, in order of the metrics; nil for a
// report without objectives.
func ReadOutcome(report *collector.Report) *Outcome {
	values, numbers := report.Values(), report.Numbers()
	o := &Outcome{Overall: true, Met: int(numbers["slo_met_requests"]), Attainment: numbers["slo_attainment"], Target: numbers["slo_attainment_target"],
		GoodputRPS: numbers["goodput_rps"], GoodputTokS: numbers["goodput_output_tok_s"]}
	for _, metric := range metricNames() {
		for _, statistic := range append([]string{""}, statisticNames()...) {
			j := Judged{Objective: Objective{Metric: metric, Statistic: statistic}}
			key := "slo_" + j.keyName()
			limit, known := numbers[key+"_ms"]
			if !known {
				continue
			}
			j.LimitMS = limit
			if statistic == "" {
				o.Single, j.Attainment = true, numbers[key+"_attainment"]
			} else {
				j.ValueMS, j.Met = numbers[j.reportKey()], values[key+"_met"] == true
				o.Overall = o.Overall && j.Met
			}
			o.Objectives = append(o.Objectives, j)
		}
	}
	if len(o.Objectives) == 0 {
		return nil
	}
	return o
}

// LimitedKey returns which statistic of a report an entry is the limit of: p99_ttft_ms of
// slo_p99_ttft_ms; "" for all other entries.
func LimitedKey(key string) string {
	for _, metric := range metricNames() {
		for _, statistic := range statisticNames() {
			if o := (Objective{Metric: metric, Statistic: statistic}); key == "slo_"+o.keyName()+"_ms" {
				return o.reportKey()
			}
		}
	}
	return ""
}

// metricNames are those that objectives may be about.
func metricNames() []string {
	_, names := metricNamed("")
	return names
}

// Title is the objective without its limit: p99 TTFT, or each TTFT.
func (o *Objective) Title() string {
	statistic := o.Statistic
	if statistic == "" {
		statistic = "each"
	}
	return statistic + " " + strings.ToUpper(o.Metric)
}
