package slo

import (
	"fmt"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/report/requests"
)

// ClassesKey is the report key of the names of the classes, joined with commas.
const ClassesKey = "classes"

// ClassOutcome holds the result of a class for the per-request objectives.
type ClassOutcome struct {
	Name       string
	Held, Met  int
	Attainment float64
}

// CheckClasses rejects objectives of classes that a workload lacks.
func CheckClasses(objectives []Objective, classes []string) error {
	for _, o := range objectives {
		switch {
		case o.Class == "" || slices.Contains(classes, o.Class):
		case len(classes) == 0:
			return fmt.Errorf("--slo: an objective of class %s requires a workload with classes, or --classes", o.Class)
		default:
			return excerpt.Errorf("--slo: class is %q, must be one of %s%s", o.Class, strings.Join(classes, ", "), nearest.Ask(o.Class, classes))
		}
	}
	return nil
}

// AreOfClasses reports whether an objective is of a class.
func AreOfClasses(objectives []Objective) bool {
	return slices.ContainsFunc(objectives, func(o Objective) bool { return o.Class != "" })
}

// covers reports whether an objective applies to a request.
func (o *Objective) covers(r *requests.Row) bool { return o.Class == "" || o.Class == r.Class }

// statisticOf returns a statistic of the requests of a class. ok is false if there is none.
func statisticOf(o *Objective, rows []requests.Row) (ms float64, ok bool) {
	var own []requests.Row
	for i := range rows {
		if rows[i].Measured() && o.covers(&rows[i]) {
			own = append(own, rows[i])
		}
	}
	times := requests.KnownTimes(own, o.metricOf().At)
	if len(times) == 0 {
		return 0, false
	}
	if p, further := furtherPercentile(o.Statistic); further {
		slices.Sort(times)
		return times[collector.NearestRank(int64(len(times)), p)], true
	}
	d := collector.Describe(times)
	return map[string]float64{
		"mean": d.Mean, "min": d.Min, "median": d.Median, "p75": d.P75, "p90": d.P90, "p95": d.P95, "p99": d.P99, "max": d.Max,
	}[o.Statistic], true
}

// judgeClasses computes the results of each class with separate objectives.
func (o *Outcome) judgeClasses(t *Tally) {
	for i := range t.single {
		name := t.single[i].Class
		if name == "" || slices.ContainsFunc(o.Classes, func(c ClassOutcome) bool { return c.Name == name }) {
			continue
		}
		c := *t.classes[name]
		c.Attainment = shareOf(c.Met, c.Held)
		o.Classes = append(o.Classes, c)
	}
}

// classMissed returns a class in which too few requests met their objectives; nil: none.
func (o *Outcome) classMissed() *ClassOutcome {
	for i := range o.Classes {
		if o.Classes[i].Attainment < o.Target {
			return &o.Classes[i]
		}
	}
	return nil
}

// AreOfQuantiles reports whether an objective is a quantile of all requests.
func AreOfQuantiles(objectives []Objective) bool {
	return slices.ContainsFunc(objectives, func(o Objective) bool { return !slices.Contains([]string{"", "mean", "min", "max"}, o.Statistic) })
}

// StatisticOfClass returns an objective that is a statistic of the requests of a class; nil: there is none.
func StatisticOfClass(objectives []Objective) *Objective {
	i := slices.IndexFunc(objectives, func(o Objective) bool { return o.Class != "" && o.Statistic != "" })
	if i < 0 {
		return nil
	}
	return &objectives[i]
}
