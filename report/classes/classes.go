// Package classes says how each class of requests fared in a run, and how evenly the cluster
// served them.
package classes

import (
	"fmt"
	"strings"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/report/slo"
)

// Class is how the requests of a class fared.
type Class struct {
	Name            string
	Requests        int // that arrived
	Completed       int // that have all their tokens
	TTFT, TPOT, E2E collector.Distribution

	Judged     bool    // its requests were held to objectives
	Attainment float64 // share of them that met these, 0 to 1
	GoodputRPS float64 // requests that met them, per second of the run
	// Speed is the answer tokens per second of the time that its requests were in the cluster.
	Speed float64
}

// Summary is how all classes fared that have requests.
type Summary struct {
	Classes []Class
	// Fairness is Jain's index of the classes' Speed: 1 if all are as fast, 1/n if only one of
	// n is served at all.
	Fairness float64
}

// Summarize returns how the classes of a workload, by these names, fared.
func Summarize(names []string, rows []requests.Row, durationMS float64) *Summary {
	s := &Summary{}
	of := map[string][]requests.Row{}
	for i := range rows {
		if rows[i].Measured() {
			of[rows[i].Class] = append(of[rows[i].Class], rows[i])
		}
	}
	for _, name := range names {
		if own := of[name]; len(own) > 0 {
			s.Classes = append(s.Classes, summarizeClass(name, own, durationMS))
		}
	}
	speeds := make([]float64, len(s.Classes))
	for i := range speeds {
		speeds[i] = s.Classes[i].Speed
	}
	s.Fairness = jainIndex(speeds)
	return s
}

func summarizeClass(name string, rows []requests.Row, durationMS float64) Class {
	c := Class{Name: name, Requests: len(rows)}
	var metrics [3]collector.Distribution
	for i, at := range []func(*requests.Row) requests.MS{
		func(r *requests.Row) requests.MS { return r.TTFT }, func(r *requests.Row) requests.MS { return r.TPOT },
		func(r *requests.Row) requests.MS { return r.E2E },
	} {
		metrics[i] = collector.Describe(requests.KnownTimes(rows, at))
	}
	c.TTFT, c.TPOT, c.E2E = metrics[0], metrics[1], metrics[2]
	tokens, inCluster, held, met := 0, 0.0, 0, 0
	for i := range rows {
		r := &rows[i]
		if r.Finished() {
			c.Completed++
		}
		if r.E2E.Known() {
			tokens += r.Tokens
			inCluster += float64(r.E2E)
		}
		if r.SLO != requests.Unjudged {
			held++
		}
		if r.SLO == requests.Met {
			met++
		}
	}
	if inCluster > 0 {
		c.Speed = 1000 * float64(tokens) / inCluster
	}
	if c.Judged = held > 0; c.Judged {
		c.Attainment = float64(met) / float64(held)
		c.GoodputRPS = float64(met) / max(durationMS/1000, 1e-9)
	}
	return c
}

// jainIndex returns Jain's fairness index of shares >= 0: the square of their sum over their
// number and the sum of their squares; 1 where all are alike, or there are none.
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

// Fields are the entries that a report gets.
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

// Lines say it to people, in 80 columns.
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
