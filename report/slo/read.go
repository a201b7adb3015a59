package slo

import (
	"strings"

	"github.com/replay-llm/replay/replay/collector"
)

// ReadOutcome reads the values of Fields from a report, in order of the metrics; nil for a report without objectives.
func ReadOutcome(report *collector.Report) *Outcome {
	values, numbers := report.Values(), report.Numbers()
	o := &Outcome{Overall: true, Met: int(numbers["slo_met_requests"]), Attainment: numbers["slo_attainment"], Target: numbers["slo_attainment_target"],
		GoodputRPS: numbers["goodput_rps"], GoodputTokS: numbers["goodput_output_tok_s"]}
	classes := []string{""}
	if names, ok := values[ClassesKey].(string); ok {
		classes = append(classes, strings.Split(names, ",")...)
	}
	for _, objective := range possibleObjectives(classes) {
		j := Judged{Objective: objective}
		key := "slo_" + j.keyName()
		limit, known := numbers[key+"_ms"]
		if !known {
			continue
		}
		j.LimitMS = limit
		if j.Statistic == "" {
			o.Single, j.Attainment = true, numbers[key+"_attainment"]
		} else {
			j.ValueMS, j.Met = numbers[j.reportKey()], values[key+"_met"] == true
			o.Overall = o.Overall && j.Met
		}
		o.Objectives = append(o.Objectives, j)
	}
	if len(o.Objectives) == 0 {
		return nil
	}
	return o
}

// possibleObjectives returns all possible objectives of requests of these classes, without limits.
func possibleObjectives(classes []string) []Objective {
	var all []Objective
	for _, class := range classes {
		for _, metric := range metricNames() {
			for _, statistic := range append([]string{""}, statisticNames()...) {
				all = append(all, Objective{Class: class, Metric: metric, Statistic: statistic})
			}
		}
	}
	return all
}

// LimitedKey returns the report key that an entry limits: p99_ttft_ms for slo_p99_ttft_ms; "" for all other entries.
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

// metricNames returns the metrics of objectives.
func metricNames() []string {
	_, names := metricNamed("")
	return names
}

// Title returns the objective without its limit: p99 TTFT, or each TTFT.
func (o *Objective) Title() string {
	statistic := o.Statistic
	if statistic == "" {
		statistic = each
	}
	title := statistic + " " + strings.ToUpper(o.Metric)
	if o.Class != "" {
		title = o.Class + " " + title
	}
	return title
}
