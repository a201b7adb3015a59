// Package classes reports the results of each class of requests in a run, and the fairness among the classes.
package classes

import (
	"errors"
	"fmt"
	"strings"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/report/slo"
)

// Class is the result of the requests of one class.
type Class struct {
	Name            string
	Requests        int // that arrived
	Completed       int // that have all their tokens
	TTFT, TPOT, E2E collector.Distribution

	Judged     bool    // its requests have objectives
	Attainment float64 // share of them that met these, 0 to 1
	GoodputRPS float64 // requests that met them, per second of the run
	// Speed is the number of answer tokens per second of the time that the requests of the class were in the cluster.
	Speed float64
}

// Summary holds the results of all classes that have requests.
type Summary struct {
	Classes []Class
	// Fairness is Jain's index of the Speed of the classes: 1 if all speeds are equal, 1/n if only one of n classes
	// is served.
	Fairness float64
}

// Summarize returns the results of the classes of a workload, in the order of names.
func Summarize(names []string, rows []requests.Row, durationMS float64) *Summary {
	s := &Summary{}
	of := map[string][]requests.Row{}
	for i := range rows {
		if rows[i].Measured() {
			of[rows[i].Class] = append(of[rows[i].Class], rows[i])
		}
	}
	for _, name := range names {
		own := of[name]
		if len(own) == 0 {
			continue
		}
		var t tallied
		for i := range own {
			t.add(&own[i])
		}
		c := t.class(name, durationMS)
		for i, at := range timesOfRows() {
			*c.times()[i] = collector.Describe(requests.KnownTimes(own, at))
		}
		s.Classes = append(s.Classes, c)
	}
	s.compare()
	return s
}

// Tally sums the results of classes, row by row.
type Tally struct {
	how collector.Folding
	of  map[string]*sums
	err error
}

// sums holds the running sums of the rows of a class.
type sums struct {
	tallied
	times [3]*collector.Values
}

// NewTally returns a tally without rows. how sets the method for quantiles.
func NewTally(how collector.Folding) *Tally { return &Tally{how: how, of: map[string]*sums{}} }

// Add adds a row.
func (t *Tally) Add(r *requests.Row) {
	if t.err != nil || !r.Measured() {
		return
	}
	x := t.of[r.Class]
	if x == nil {
		x = new(sums)
		t.of[r.Class] = x
		for i := range x.times {
			if x.times[i], t.err = collector.NewValues(t.how); t.err != nil {
				return
			}
		}
	}
	x.add(r)
	for i, at := range timesOfRows() {
		if ms := at(r); ms.Known() {
			x.times[i].Add(float64(ms))
		}
	}
}

// Summary returns the results of the classes, and releases the data of the tally.
func (t *Tally) Summary(names []string, durationMS float64) (*Summary, error) {
	s, errs := &Summary{}, []error{t.err}
	for _, name := range names {
		x := t.of[name]
		if x == nil || t.err != nil {
			continue
		}
		c := x.class(name, durationMS)
		for i, to := range c.times() {
			*to = x.times[i].Describe()
			errs = append(errs, x.times[i].Close())
		}
		s.Classes = append(s.Classes, c)
	}
	s.compare()
	return s, errors.Join(errs...)
}

// timesOfRows returns the functions of the three times that have distributions.
func timesOfRows() [3]func(*requests.Row) requests.MS {
	return [...]func(*requests.Row) requests.MS{
		func(r *requests.Row) requests.MS { return r.TTFT }, func(r *requests.Row) requests.MS { return r.TPOT },
		func(r *requests.Row) requests.MS { return r.E2E },
	}
}

// times returns the distributions in the order of timesOfRows.
func (c *Class) times() [3]*collector.Distribution {
	return [...]*collector.Distribution{&c.TTFT, &c.TPOT, &c.E2E}
}

// tallied holds the values that are summed over the rows of a class.
type tallied struct {
	requests, completed, tokens, held, met int
	inCluster                              float64
}

func (t *tallied) add(r *requests.Row) {
	t.requests++
	if r.Finished() {
		t.completed++
	}
	if r.E2E.Known() {
		t.tokens += r.Tokens
		t.inCluster += float64(r.E2E)
	}
	if r.SLO != requests.Unjudged {
		t.held++
	}
	if r.SLO == requests.Met {
		t.met++
	}
}

// class returns the class without its distributions.
func (t *tallied) class(name string, durationMS float64) Class {
	c := Class{Name: name, Requests: t.requests, Completed: t.completed}
	if t.inCluster > 0 {
		c.Speed = 1000 * float64(t.tokens) / t.inCluster
	}
	if c.Judged = t.held > 0; c.Judged {
		c.Attainment = float64(t.met) / float64(t.held)
		c.GoodputRPS = float64(t.met) / max(durationMS/1000, 1e-9)
	}
	return c
}

// compare computes the fairness of the classes.
func (s *Summary) compare() {
	speeds := make([]float64, len(s.Classes))
	for i := range speeds {
		speeds[i] = s.Classes[i].Speed
	}
	s.Fairness = jainIndex(speeds)
}

// jainIndex returns Jain's fairness index of shares >= 0: the square of their sum, divided by their number and the sum
// of their squares; 1 if all are equal, or there are none.
func jainIndex(shares []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, x := range shares {
		sum += x
		squares += float64(x * x)
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(shares)) * squares)
}

// Fields returns the report values of the classes.
func (s *Summary) Fields() []collector.Field {
	var names []string
	var fields []collector.Field
	for i := range s.Classes {
		c := &s.Classes[i]
		names = append(names, c.Name)
		add := func(key string, value float64) {
			fields = append(fields, collector.Of("class_"+c.Name+"_"+key, value))
		}
		fields = append(fields, collector.Of("class_"+c.Name+"_requests", c.Requests), collector.Of("class_"+c.Name+"_completed_requests", c.Completed))
		for _, m := range []struct {
			key string
			of  *collector.Distribution
		}{{"ttft_ms", &c.TTFT}, {"tpot_ms", &c.TPOT}, {"e2e_latency_ms", &c.E2E}} {
			add("mean_"+m.key, m.of.Mean)
			add("median_"+m.key, m.of.Median)
			add("p90_"+m.key, m.of.P90)
			add("p99_"+m.key, m.of.P99)
			add("max_"+m.key, m.of.Max)
		}
		add("answer_tok_s", c.Speed)
		if c.Judged {
			add("attainment", c.Attainment)
			add("goodput_rps", c.GoodputRPS)
		}
	}
	return append(fields, collector.Of(slo.ClassesKey, strings.Join(names, ",")),
		collector.Of("class_fairness", s.Fairness))
}

// Lines returns the summary as text, in 80 columns.
func (s *Summary) Lines() []string {
	lines := []string{fmt.Sprintf("%-12s %9s %9s %9s %8s %8s %9s %9s", "Class", "requests", "TTFT p50", "p99", "TPOT p50", "p99", "E2E p50", "p99")}
	for i := range s.Classes {
		c := &s.Classes[i]
		count := fmt.Sprint(c.Requests)
		if c.Completed < c.Requests {
			count = fmt.Sprintf("%d/%d", c.Completed, c.Requests)
		}
		lines = append(lines, fmt.Sprintf("%-12s %9s %9.1f %9.1f %8.2f %8.2f %9.1f %9.1f",
			c.Name, count, c.TTFT.Median, c.TTFT.P99, c.TPOT.Median, c.TPOT.P99, c.E2E.Median, c.E2E.P99))
		if c.Judged {
			lines = append(lines, fmt.Sprintf("%-12s met by %.2f%%, goodput %.2f requests/sec", "", 100*c.Attainment, c.GoodputRPS))
		}
	}
	return append(lines, fmt.Sprintf("Fairness between classes (Jain): %.3f", s.Fairness))
}
