package calibrate

import (
	"math"
	"slices"

	"github.com/replay-llm/replay/calibrate/measured"
)

// Errors holds the relative errors of one metric over a set of requests: simulated relative to measured.
type Errors struct {
	Metric   string  `json:"metric"`
	Requests int     `json:"requests"`
	Measured float64 `json:"measured_mean_s"`
	Mean     float64 `json:"mean"`
	P50      float64 `json:"p50"`
	P90      float64 `json:"p90"`
	P99      float64 `json:"p99"`
	Each     float64 `json:"median_of_requests"` // median of the absolute errors of single requests
	// Bucketed marks quantiles that were compared with buckets of a histogram. Single requests are then unknown.
	Bucketed bool `json:"of_buckets,omitempty"`
}

// judgeOutcome compares an outcome with the measurements of the chosen requests.
func judgeOutcome(m *Measured, chosen []int, out *Outcome) []Errors {
	t := newTarget(m, chosen)
	var all []Errors
	for k, x := range t.metrics {
		simulated := t.simulated(k, out)
		e := Errors{Metric: x.name, Measured: t.mean[k], Mean: t.miss(k, out)}
		each := make([]float64, 0, len(chosen))
		for i := range simulated {
			if !math.IsNaN(t.measured[k][i]) {
				e.Requests++
				each = append(each, math.Abs(simulated[i]/t.measured[k][i]-1))
			}
		}
		of := func(q float64) float64 {
			return measured.QuantileOf(simulated, q)/measured.QuantileOf(t.measured[k], q) - 1
		}
		e.P50, e.P90, e.P99, e.Each = of(0.5), of(0.9), of(0.99), measured.QuantileOf(each, 0.5)
		all = append(all, e)
	}
	return all
}

// shortWait is the longest wait in s, from arrival to admission, of a request that found a free place in the server.
const shortWait = 0.25

// firstIgnored is the number of first requests that do not count among the requests with short waits, because the
// server is warming up.
const firstIgnored = 10

// saturation divides the requests of a run into quick ones, which were admitted at once, and slow ones. The first
// firstIgnored requests of a run are not among the quick ones.
type saturation struct {
	quick, slow []int
	// supposed is true if the run does not record the waits. A request is then quick if a replay admits it at once
	// and it was not held back before the server.
	supposed bool
}

// nameOf returns the name of a set of requests.
func (s *saturation) nameOf(set string) string {
	if s.supposed {
		return set + " as replayed"
	}
	return set
}

// splitBySaturation divides requests by their wait for admission. The waits are in the run, or in a replay if the run
// does not record them.
func splitBySaturation(m *Measured, out *Outcome) (s saturation) {
	late := m.lateFirst()
	for i := m.judgedFrom(); i < len(m.Requests); i++ {
		r := &m.Requests[i]
		if r.Cut {
			continue
		}
		waited := r.Scheduled-r.Arrival >= shortWait
		if math.IsNaN(r.Scheduled) {
			s.supposed = true
			begun := r.Arrival
			if len(out.Begun) > 0 {
				begun = out.Begun[i]
			}
			waited = !(r.First-r.Arrival < late) || out.Scheduled[i]-begun >= shortWait
		}
		switch {
		case waited:
			s.slow = append(s.slow, i)
		case i >= firstIgnored:
			s.quick = append(s.quick, i)
		}
	}
	return s
}

// longHold is a time in s, for runs without times of admission. A request was held back if its first token came later
// than the median by at least longHold.
const longHold = 0.6

// lateFirst returns the least time to the first token, in s, of a request that was held back.
func (m *Measured) lateFirst() float64 {
	var all []float64
	for i := m.Lead; i < len(m.Requests); i++ {
		all = append(all, m.Requests[i].First-m.Requests[i].Arrival)
	}
	return measured.QuantileOf(all, 0.5) + longHold
}

// heldOutBound is the error of held-out means below which a profile is good enough.
const heldOutBound = 0.05

// Holds reports whether the means of all metrics of all held-out sets are within the bound. Sets marked as known do
// not count, and at least one set must count.
func (r *Result) Holds() bool {
	held := false
	for _, c := range r.Checks {
		if c.Known != "" {
			continue
		}
		held = held || c.HeldOut
		if c.HeldOut && slices.ContainsFunc(c.Errors, func(e Errors) bool { return !(math.Abs(e.Mean) <= heldOutBound) }) {
			return false
		}
	}
	return held
}
