package calibrate

import (
	"math"
	"slices"

	"github.com/replay-llm/replay/calibrate/measured"
)

// Errors are those of one metric over a set of requests: relative, simulated to
// measured.
type Errors struct {
	Metric   string  `json:"metric"`
	Requests int     `json:"requests"`
	Measured float64 `json:"measured_mean_s"`
	Mean     float64 `json:"mean"`
	P50      float64 `json:"p50"`
	P90      float64 `json:"p90"`
	P99      float64 `json:"p99"`
	Each     float64 `json:"median_of_requests"` // median of the size of the errors of single requests
	// Bucketed quantiles are compared with buckets of a histogram, and nothing is known of
	// single requests.
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

// shortWait is the time in s from arrival to admission below which a request
// found the server with room.
const shortWait = 0.25

// first is the number of requests of a run that are left out where waits are
// short: the server is warming up.
const firstIgnored = 10

// saturation is which requests of a run were admitted at once, without the first, and which were not.
type saturation struct {
	quick, slow []int
	// supposed is true when the run does not record them: they are the requests that a replay admits at once, and that were
	// not held back before the server.
	supposed bool
}

// nameOf returns the name of a set of requests.
func (s *saturation) nameOf(set string) string {
	if s.supposed {
		return set + " as replayed"
	}
	return set
}

// splitBySaturation divides requests by whether they waited for their admission: as the run tells or,
// where it does not, as they did in a replay.
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

// longHold is the time in s by which the first token of a request is later than half of them
// where it was held back, in a run without times of admission.
const longHold = 0.6

// lateFirst returns the time to the first token, in s, from which on a request
// was held back.
func (m *Measured) lateFirst() float64 {
	var all []float64
	for i := m.Lead; i < len(m.Requests); i++ {
		all = append(all, m.Requests[i].First-m.Requests[i].Arrival)
	}
	return measured.QuantileOf(all, 0.5) + longHold
}

// bound is the error of held-out means below which a profile is good enough.
const heldOutBound = 0.05

// Holds reports whether the means of all metrics of all held-out sets are within the bound, without sets marked known.
// There must be such a set.
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
