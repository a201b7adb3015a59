// Package limits finds the causes that limit the latencies of a run: the parts of the time of its slowest requests,
// and the contents of its longest gaps between tokens.
//
// Read limits.go (the limits of an objective), then watch.go (the recorded part of a run), queue.go (the reasons of
// waits in an engine's queue), gaps.go.
package limits

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/report/ledger"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/report/slo"
	"github.com/replay-llm/replay/sim"
)

// Limit holds the causes that limit one objective.
type Limit struct {
	OfGaps bool // between tokens; otherwise of requests
	// Over is true if Part of the requests exceed the limit of the objective. Otherwise Part is the slowest part that
	// the statistic of the objective allows, or all.
	Over   bool
	Part   float64 // share of all gaps or requests that Causes are about, 0 to 1
	Causes []Cause // of the time of these requests, or of the number of these gaps; the largest first

	PromptTokens int // of gaps with a prefill: computed in the pass, median; 0 without
	Decoding     int // of gaps without: requests that decode in the pass, median; 0 without
}

// Cause is a part of the time, with its share.
type Cause struct {
	Key   string  // name in files, as in ledgers
	Name  string  // name in texts
	Share float64 // 0 to 1
}

// Causes of gaps between tokens.
const (
	gapPrefill = "prefill"
	gapResumed = "preemption"
	gapDecode  = "decode"
)

// Find returns the limits of an objective with the given value in the run. The second result is false if nothing is
// known: no request is concerned, or the objective is on the second token.
func (w *Watch) Find(o *slo.Objective, value float64, rows []requests.Row) (Limit, bool) {
	if o.Metric == "itl" && o.Statistic != "" {
		return w.findGaps(o, value)
	}
	metric, ok := metricOf(o)
	if !ok {
		return Limit{}, false
	}
	var held []*requests.Row
	for i := range rows {
		r := &rows[i]
		if r.Measured() && r.Finished() && metric(r).Known() && (o.Class == "" || o.Class == r.Class) {
			held = append(held, r)
		}
	}
	l := Limit{}
	least := leastOf(o, value)
	if o.Statistic == "" {
		l.Over = slices.ContainsFunc(held, func(r *requests.Row) bool { return float64(metric(r)) > o.LimitMS })
		if !l.Over {
			least = slowestFrom(held, metric)
		}
	} else {
		l.Over = value > o.LimitMS && o.Statistic != "mean"
	}
	var sums []Cause
	all, n := 0.0, 0
	for _, r := range held {
		if v := float64(metric(r)); l.Over && v <= o.LimitMS || !l.Over && v < least {
			continue
		}
		n++
		all += w.addParts(&sums, o.Metric, sim.RequestID(r.ID))
	}
	if n == 0 || all <= 0 {
		return l, false
	}
	l.Part = float64(n) / float64(len(held))
	l.Causes = sortCauses(sums, all)
	return l, true
}

// FindQueue returns the parts of the time up to the first tokens of all requests, if the queue grew to the end.
func (w *Watch) FindQueue(rows []requests.Row) (Limit, bool) {
	return w.Find(&slo.Objective{Metric: "ttft", Statistic: "mean", LimitMS: math.Inf(1)}, 0, rows)
}

// slowestFrom returns the smallest value of the slowest 1 % of the requests.
func slowestFrom(held []*requests.Row, metric func(*requests.Row) requests.MS) float64 {
	values := make([]float64, len(held))
	for i, r := range held {
		values[i] = float64(metric(r))
	}
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[collector.NearestRank(int64(len(values)), 99)]
}

// leastOf returns the smallest value of the requests that the statistic of an objective is about.
func leastOf(o *slo.Objective, value float64) float64 {
	if o.Statistic == "mean" || o.Statistic == "min" {
		return 0
	}
	return value * (1 - 1e-9)
}

// metricOf returns the function for a request's value of an objective, if the parts of this value are known.
func metricOf(o *slo.Objective) (func(*requests.Row) requests.MS, bool) {
	switch o.Metric {
	case "ttft":
		return func(r *requests.Row) requests.MS { return r.TTFT }, true
	case "tpot", "itl":
		return func(r *requests.Row) requests.MS { return r.TPOT }, true
	case "e2e":
		return func(r *requests.Row) requests.MS { return r.E2E }, true
	}
	return nil, false
}

// addParts adds the parts of a request's time in a metric, and returns their sum.
func (w *Watch) addParts(sums *[]Cause, metric string, id sim.RequestID) (all float64) {
	entry, _ := w.Entry(id)
	first, _ := w.First(id)
	if metric == "ttft" {
		entry = first
	} else if metric != "e2e" {
		for p := range entry {
			entry[p] -= first[p]
		}
		if short := entry[ledger.Stretched]; short < 0 { // the time alone is known only for all tokens together
			entry[ledger.Alone] += short
			entry[ledger.Stretched] = 0
		}
	}
	if metric == "ttft" {
		addCause(sums, "decode", "decode steps of the same passes", max(entry[ledger.Stretched], 0))
		all, entry[ledger.Stretched] = max(entry[ledger.Stretched], 0), 0
	}
	for _, p := range ledger.Parts() {
		ms := max(entry[p], 0)
		all += ms
		if waits := w.waits[id]; p == ledger.Queue && waits != nil {
			waits.addTo(sums, ms)
			continue
		}
		addCause(sums, p.Key(), p.String(), ms)
	}
	return all
}

// addCause adds ms to a cause.
func addCause(sums *[]Cause, key, name string, ms float64) {
	i := slices.IndexFunc(*sums, func(c Cause) bool { return c.Key == key })
	if i < 0 {
		i = len(*sums)
		*sums = append(*sums, Cause{Key: key, Name: name})
	}
	(*sums)[i].Share += ms
}

// sortCauses returns the causes with their shares of all, the largest first.
func sortCauses(sums []Cause, all float64) []Cause {
	sums = slices.DeleteFunc(sums, func(c Cause) bool { return c.Share <= 0 })
	for i := range sums {
		sums[i].Share /= all
	}
	stable.Sort(sums, func(a, b Cause) int { return cmp.Compare(b.Share, a.Share) })
	return sums
}

// Limits of the causes in texts: their number, and the minimum share of each.
const (
	namedCauses = 3
	namedShare  = 0.1
)

// String describes the limit, for a text after the value of its objective.
func (l Limit) String() string {
	if l.OfGaps {
		return l.describeGaps()
	}
	var parts []string
	for i, c := range l.Causes {
		if i == 0 || i < namedCauses && c.Share >= namedShare {
			parts = append(parts, fmt.Sprintf("%.0f%% %s", 100*c.Share, c.Name))
		}
	}
	text := strings.Join(parts, ", ")
	switch {
	case l.Over:
		return fmt.Sprintf("%s of the requests exceed the limit; their time is %s", formatShare(l.Part), text)
	case l.Part > 0.999:
		return "the time of all requests is " + text
	}
	return fmt.Sprintf("the time of the slowest %s of the requests is %s", formatShare(l.Part), text)
}

// formatShare returns a share in per cent, with two digits if it is small.
func formatShare(share float64) string {
	if share >= 0.1 {
		return fmt.Sprintf("%.0f%%", 100*share)
	}
	return fmt.Sprintf("%.2g%%", 100*share)
}
