// Package saturation judges whether a cluster kept up with its load: whether the measures would be the same on a
// workload twice as long.
package saturation

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/sim"
)

// Verdict is the state of the load.
type Verdict string

const (
	Stable     Verdict = "stable"     // the wait of requests does not grow
	Backlogged Verdict = "backlogged" // a queue built up and went
	Overloaded Verdict = "overloaded" // the queue grew to the end: more requests, worse latencies
	Unsettled  Verdict = "unsettled"  // too short for a verdict: the cluster was still filling up
)

const (
	windows = 12   // stretches with equal numbers of requests, in order of arrival
	fewest  = 60   // minimum number of requests for a verdict
	certain = 2.33 // standard deviations of a trend that is no chance: 1 in 100
	settled = 3    // minimum span of arrivals, in mean latencies
	matters = 0.1  // minimum wait that matters, as a share of the mean time from admission to the last token
	lasting = 0.5  // wait of the last stretch that lasts, as a share of the longest mean wait
)

// Saturation is the verdict with its data.
type Saturation struct {
	Verdict Verdict
	// WaitFirst and WaitLast are the mean times from arrival to admission, in ms, over the first and the last twelfth
	// of the requests. WaitMost is the longest mean time of a twelfth.
	WaitFirst float64
	WaitLast  float64
	WaitMost  float64
	// Trend is the Mann-Kendall trend of the waits of the twelfths, in standard deviations. By chance it exceeds 2.33
	// in one of a hundred runs.
	Trend    float64
	Arrivals float64 // from the first to the last
	Latency  float64 // from arrival to the last token
}

// Of judges a run in open loop. The requests of the run may be kept or folded.
func Of(c *collector.Collector) Saturation {
	if _, folded := c.Folds(); !folded {
		return judgeQueue(c.Admitted())
	}
	all := c.Stretches(windows)
	if all.Requests < fewest {
		return Saturation{Verdict: Unsettled}
	}
	return judgeStretches(&all)
}

// judgeQueue judges a run in open loop. Requests that were never admitted wait until the end.
func judgeQueue(records []collector.Record) Saturation {
	n := len(records)
	if n < fewest {
		return Saturation{Verdict: Unsettled}
	}
	order := byArrival(records)
	end := sim.Time(0)
	for i := range records {
		end = max(end, records[i].Last, records[i].Arrival)
	}
	all := collector.Stretches{Waits: make([]float64, windows)}
	for w := range all.Waits {
		from, to := n*w/windows, n*(w+1)/windows
		for i := from; i < to; i++ {
			r := &records[i]
			if order != nil {
				r = &records[order[i]]
			}
			wait := end - r.Arrival
			if r.Admitted() {
				wait = (r.Admit - r.Arrival).Max0()
			}
			all.Waits[w] += float64(wait) / float64(to-from)
			if r.Counted() {
				all.Service += float64(r.Last - r.Admit)
				all.Latency += float64(r.E2E())
				all.Served++
			}
		}
	}
	first, last := &records[0], &records[n-1]
	if order != nil {
		first, last = &records[order[0]], &records[order[n-1]]
	}
	all.First, all.Last = first.Arrival, last.Arrival
	return judgeStretches(&all)
}

// judgeStretches judges a run by the waiting times of requests.
func judgeStretches(all *collector.Stretches) Saturation {
	s := Saturation{WaitFirst: all.Waits[0], WaitLast: all.Waits[windows-1], WaitMost: slices.Max(all.Waits)}
	s.Trend, s.Arrivals = measureTrend(all.Waits), float64(all.Last-all.First)
	s.Latency = all.Latency / float64(max(all.Served, 1))
	s.Verdict = s.judge(all.Service / float64(max(all.Served, 1)))
	return s
}

// byArrival returns the order of arrival, nil if records are in this order.
func byArrival(records []collector.Record) []int32 {
	earlier := func(a, b collector.Record) int { return cmp.Compare(a.Arrival, b.Arrival) }
	if slices.IsSortedFunc(records, earlier) {
		return nil
	}
	order := make([]int32, len(records))
	for i := range order {
		order[i] = int32(i)
	}
	stable.Sort(order, func(a, b int32) int { return cmp.Compare(records[a].Arrival, records[b].Arrival) })
	return order
}

// judge returns the verdict on the waits, compared with the mean time of service.
func (s *Saturation) judge(service float64) Verdict {
	growing := s.Trend > certain && s.WaitLast-s.WaitFirst > matters*service && s.WaitLast > lasting*s.WaitMost
	switch {
	case growing:
		return Overloaded
	case s.Arrivals < settled*s.Latency:
		return Unsettled
	case s.WaitMost > matters*service:
		return Backlogged
	default:
		return Stable
	}
}

// measureTrend returns the statistic of the Mann-Kendall test divided by its standard deviation, with the continuity
// correction.
func measureTrend(values []float64) float64 {
	sum := 0
	for i, a := range values {
		for _, b := range values[i+1:] {
			sum += cmp.Compare(b, a)
		}
	}
	n := float64(len(values))
	spread := math.Sqrt(n * (n - 1) * (2*n + 5) / 18)
	switch {
	case sum > 0:
		return (float64(sum) - 1) / spread
	case sum < 0:
		return (float64(sum) + 1) / spread
	default:
		return 0
	}
}

// String returns the verdict in a sentence.
func (s Saturation) String() string {
	switch s.Verdict {
	case Overloaded:
		return fmt.Sprintf("overloaded: the queue grew to the end (mean wait %.0f ms in the first twelfth of the requests, %.0f ms in the last); on a longer workload latencies are worse", s.WaitFirst, s.WaitLast)
	case Backlogged:
		return fmt.Sprintf("backlogged: requests queued up to %.0f ms (mean of a twelfth), and the queue went again", s.WaitMost)
	case Stable:
		return "stable: no queue grew"
	}
	if s.Arrivals == 0 {
		return fmt.Sprintf("unsettled: fewer than %d requests, or all at once, do not tell a stable load from one that is too high", fewest)
	}
	return fmt.Sprintf("unsettled: arrivals over %.1f s, with a mean latency of %.1f s, are too short to tell a stable load from one that is too high", s.Arrivals/1000, s.Latency/1000)
}

// TooShort returns the reason why a run is unsettled.
func (s Saturation) TooShort() string {
	if s.Arrivals == 0 {
		return fmt.Sprintf("fewer than %d requests, or all at once: the workload is too short to tell", fewest)
	}
	return fmt.Sprintf("arrivals last %.1f s at a mean latency of %.1f s: the workload is too short to tell", s.Arrivals/1000, s.Latency/1000)
}

// Fields returns the verdict and its data as report values.
func (s Saturation) Fields() []collector.Field {
	return []collector.Field{collector.Of("saturation", string(s.Verdict)), collector.Of("saturation_test", []collector.Field{
		collector.Of("wait_first_ms", s.WaitFirst), collector.Of("wait_last_ms", s.WaitLast),
		collector.Of("wait_most_ms", s.WaitMost), collector.Of("wait_trend", s.Trend), collector.Of("arrivals_ms", s.Arrivals), collector.Of("mean_latency_ms", s.Latency),
	})}
}

// Read returns the verdict in a report. The second result is false if there is none.
func Read(report *collector.Report) (s Saturation, ok bool) {
	verdict, ok := report.Get("saturation").Value().(string)
	s.Verdict = Verdict(verdict)
	places := map[string]*float64{
		"wait_first_ms": &s.WaitFirst, "wait_last_ms": &s.WaitLast, "wait_most_ms": &s.WaitMost,
		"wait_trend": &s.Trend, "arrivals_ms": &s.Arrivals, "mean_latency_ms": &s.Latency,
	}
	parts, _ := report.Get("saturation_test").Value().([]collector.Field)
	for _, part := range parts {
		if n, ok := part.Value().(float64); ok && places[part.Key] != nil {
			*places[part.Key] = n
		}
	}
	return s, ok && verdict != ""
}
