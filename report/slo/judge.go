package slo

import (
	"fmt"
	"strings"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/requests"
)

// Outcome is the result of a run for its objectives.
type Outcome struct {
	Single  bool // there are objectives of single requests
	Arrived int
	Met     int // requests that met all of them

	Attainment  float64 // share of the requests that arrived, 0 to 1
	Target      float64 // that it was to reach
	GoodputRPS  float64 // requests that met them, per second of the run
	GoodputTokS float64 // their answer tokens, per second of the run
	Objectives  []Judged
	Overall     bool // all objectives over all requests were met
	Classes     []ClassOutcome
}

// Judged is an objective and its result.
type Judged struct {
	Objective
	Attainment float64 // of an objective of single requests: share that met it
	ValueMS    float64 // of a statistic
	Met        bool    // for a statistic
	Rejected   int     // for a statistic that is missed because of rejected requests: their number
}

// unfinished marks the missed objectives of a request without an answer.
const unfinished = "unfinished"

// Judge compares rows and result with objectives, and stores in each row whether it met them. A request without a
// second token has no time per token and meets a limit on it. A request without a complete answer misses all
// objectives. target is the required share of requests.
func Judge(objectives []Objective, target float64, rows []requests.Row, result *harness.Result) *Outcome {
	t := NewTally(objectives, target)
	for i := range rows {
		t.Add(&rows[i])
	}
	return t.Outcome(result, rows)
}

// FindStatistic returns a statistic of a metric over all requests in ms. ok is false if there is none.
func FindStatistic(result *harness.Result, statistic, metric string) (ms float64, ok bool) {
	m, _ := metricNamed(metric)
	if m == nil {
		return 0, false
	}
	if p, further := furtherPercentile(statistic); further {
		return result.Collector.Percentile(m.Key, p)
	}
	ms, ok = result.Report.Numbers()[statistic+"_"+m.Key]
	return ms, ok
}

// Tally compares requests with objectives one by one.
type Tally struct {
	objectives []Objective
	target     float64

	single  []Judged // those of single requests
	at      []func(*requests.Row) requests.MS
	all     bool // every request is held to something
	missed  []string
	arrived int   // requests with objectives
	held    []int // by objective of single requests: requests that it covers
	met     []int // of these
	metAll  int
	tokens  int // of requests that met all
	classes map[string]*ClassOutcome
}

// NewTally returns a tally without requests.
func NewTally(objectives []Objective, target float64) *Tally {
	t := &Tally{objectives: objectives, target: target, classes: map[string]*ClassOutcome{}}
	for _, o := range objectives {
		if o.Statistic == "" {
			t.single = append(t.single, Judged{Objective: o})
			t.at = append(t.at, o.metricOf().At)
			if t.all = t.all || o.Class == ""; o.Class != "" {
				t.classes[o.Class] = &ClassOutcome{Name: o.Class}
			}
		}
	}
	t.all = t.all || len(t.single) == 0
	t.held, t.met = make([]int, len(t.single)), make([]int, len(t.single))
	return t
}

// Add compares a request with the objectives, and stores in its row whether it met them.
func (t *Tally) Add(r *requests.Row) {
	if !r.Measured() {
		return
	}
	t.missed = t.missed[:0]
	any := false
	for k := range t.single {
		j := &t.single[k]
		if !j.covers(r) {
			continue
		}
		any = true
		t.held[k]++
		if !r.Finished() {
			continue
		}
		if v := t.at[k](r); v.Known() && float64(v) > j.LimitMS {
			t.missed = append(t.missed, j.Metric)
		} else {
			t.met[k]++
		}
	}
	if any || t.all {
		t.arrived++
	}
	class := t.classes[r.Class]
	if class != nil {
		class.Held++
	}
	if !any {
		return
	}
	if !r.Finished() {
		t.missed = append(t.missed, unfinished)
	}
	r.SLO, r.SLOMissed = requests.Missed, strings.Join(t.missed, "+")
	if len(t.missed) == 0 {
		r.SLO = requests.Met
		if t.metAll++; class != nil {
			class.Met++
		}
		t.tokens += r.Tokens
	}
}

// Outcome returns the outcome of the objectives. A statistic of a class requires the rows of all requests.
func (t *Tally) Outcome(result *harness.Result, rows []requests.Row) *Outcome {
	o := &Outcome{Arrived: t.arrived, Target: t.target, Overall: true}
	for k := range t.single {
		j := t.single[k]
		j.Attainment = shareOf(t.met[k], t.held[k])
		o.Objectives = append(o.Objectives, j)
	}
	rejected := countRejected(result)
	for _, objective := range t.objectives {
		if objective.Statistic == "" {
			continue
		}
		j, known := Judged{Objective: objective}, true
		if j.Class != "" {
			j.ValueMS, known = statisticOf(&objective, rows)
		} else {
			j.ValueMS, _ = FindStatistic(result, j.Statistic, j.Metric)
		}
		j.Met = known && j.ValueMS <= objective.LimitMS
		if j.Class != "" {
			times, n := countRejectedOf(&objective, rows)
			j.judgeRejected(len(times), n, func(p float64) float64 { return times[collector.NearestRank(int64(len(times)), p)] })
		} else {
			j.judgeRejected(result.Report.Completed, rejected, func(p float64) float64 {
				ms, _ := result.Collector.Percentile(objective.metricOf().Key, p)
				return ms
			})
		}
		o.Overall = o.Overall && j.Met
		o.Objectives = append(o.Objectives, j)
	}
	if len(t.single) == 0 {
		return o
	}
	o.Single, o.Met = true, t.metAll
	seconds := max(result.Report.DurationMS/1000.0, 1e-9)
	o.Attainment = shareOf(o.Met, o.Arrived)
	o.GoodputRPS, o.GoodputTokS = float64(o.Met)/seconds, float64(t.tokens)/seconds
	o.judgeClasses(t)
	return o
}

// shareOf returns part divided by whole; 1 if whole is 0.
func shareOf(part, whole int) float64 {
	if whole == 0 {
		return 1
	}
	return float64(part) / float64(whole)
}

// Holds reports whether all objectives are met.
func (o *Outcome) Holds() bool {
	return o.Overall && (!o.Single || o.Attainment >= o.Target && o.classMissed() == nil)
}

// Fields returns the report values of the outcome.
func (o *Outcome) Fields() []collector.Field {
	fields := []collector.Field{collector.Of("slo_met", o.Holds())}
	if o.Single {
		fields = append(fields,
			collector.Of("slo_met_requests", o.Met),
			collector.Of("slo_attainment", o.Attainment),
			collector.Of("slo_attainment_target", o.Target),
			collector.Of("goodput_rps", o.GoodputRPS),
			collector.Of("goodput_output_tok_s", o.GoodputTokS))
	}
	for _, c := range o.Classes {
		fields = append(fields, collector.Of("slo_class_"+c.Name+"_attainment", c.Attainment))
	}
	for i := range o.Objectives {
		j := &o.Objectives[i]
		key := "slo_" + j.keyName()
		fields = append(fields, collector.Of(key+"_ms", j.LimitMS))
		if j.Statistic == "" {
			fields = append(fields, collector.Of(key+"_attainment", j.Attainment))
		} else {
			fields = append(fields, collector.Of(key+"_met", j.Met))
			if _, further := furtherPercentile(j.Statistic); further || j.Class != "" {
				fields = append(fields, collector.Of(j.reportKey(), j.ValueMS))
			}
		}
	}
	return fields
}

// Lines returns the outcome as text.
func (o *Outcome) Lines() []string {
	var lines []string
	if o.Single {
		lines = append(lines, fmt.Sprintf("SLO: %d of %d requests met it (%.2f%%, target %.2f%%)",
			o.Met, o.Arrived, 100*o.Attainment, 100*o.Target))
		for _, c := range o.Classes {
			lines = append(lines, fmt.Sprintf("SLO of %s: %d of %d requests met it (%.2f%%)", c.Name, c.Met, c.Held, 100*c.Attainment))
		}
		lines = append(lines, fmt.Sprintf("Goodput: %.2f requests/sec, %.2f output tokens/sec", o.GoodputRPS, o.GoodputTokS))
	}
	for i := range o.Objectives {
		j := &o.Objectives[i]
		switch {
		case j.Statistic == "":
			lines = append(lines, fmt.Sprintf("SLO %v: met by %.2f%%", j.Objective, 100*j.Attainment))
		case j.Met:
			lines = append(lines, fmt.Sprintf("SLO %v: met, %.2f ms", j.Objective, j.ValueMS))
		case j.Rejected > 0:
			lines = append(lines, fmt.Sprintf("SLO %v: missed, %d requests were rejected", j.Objective, j.Rejected))
		default:
			lines = append(lines, fmt.Sprintf("SLO %v: missed, %.2f ms", j.Objective, j.ValueMS))
		}
	}
	return lines
}

// Missed describes the missed objectives in one line, "" if all are met.
func (o *Outcome) Missed() string {
	var parts []string
	if o.Single && o.Attainment < o.Target {
		parts = append(parts, fmt.Sprintf("%d of %d requests met their objectives, expected %.2f%%", o.Met, o.Arrived, 100*o.Target))
	}
	if c := o.classMissed(); c != nil {
		parts = append(parts, fmt.Sprintf("%d of %d requests of class %s met their objectives, expected %.2f%%", c.Met, c.Held, c.Name, 100*o.Target))
	}
	for i := range o.Objectives {
		j := &o.Objectives[i]
		switch {
		case j.Statistic == "" || j.Met:
		case j.Rejected > 0:
			parts = append(parts, fmt.Sprintf("%s cannot be met: %d requests were rejected", j.Name(), j.Rejected))
		default:
			parts = append(parts, fmt.Sprintf("%s is %.2f ms, must be at most %g ms", j.Name(), j.ValueMS, j.LimitMS))
		}
	}
	return strings.Join(parts, "; ")
}
