package calibrate

import (
	"fmt"
	"math"

	"github.com/replay-llm/replay/calibrate/measured"
)

// metric is a quantity of a request that is compared. The quantity is a span of time in s divided by a number. The
// number is NaN if the request has no such quantity.
type metric struct {
	name string
	span func(*measured.Request) (from, to, over float64)
}

func allMetrics() []metric {
	return []metric{
		{"TTFT", func(r *measured.Request) (from, to, over float64) { return r.Arrival, r.First, 1 }},
		{"TPOT", func(r *measured.Request) (from, to, over float64) {
			if r.Output < 2 {
				return r.First, r.Last, math.NaN()
			}
			return r.First, r.Last, float64(r.Output - 1)
		}},
		{"E2E", func(r *measured.Request) (from, to, over float64) { return r.Arrival, r.Last, 1 }},
	}
}

// valueOf returns the value of metric x for a request.
func (x *metric) valueOf(r *measured.Request) float64 {
	from, to, over := x.span(r)
	return (to - from) / over
}

// fewHeld is the maximum share of requests that a fit may ignore because they waited in front of the server.
const fewHeld = 0.05

// withoutHeld returns the chosen requests without the requests held back before the server, if these are few.
func (m *Measured) withoutHeld(chosen []int) []int {
	if !m.Client {
		return chosen
	}
	late, kept := m.lateFirst(), []int(nil)
	for _, i := range chosen {
		if r := &m.Requests[i]; r.First-r.Arrival < late {
			kept = append(kept, i)
		}
	}
	if float64(len(chosen)-len(kept)) > fewHeld*float64(len(chosen)) {
		return chosen
	}
	return kept
}

// Ignore excludes arrivals in the first seconds of the run from fits and judgements.
func (m *Measured) Ignore(seconds float64) error {
	m.Ignored = &seconds
	if n := len(m.judged()); n < measured.Fewest {
		return fmt.Errorf("%s: %d requests arrive after the first %g s, must be at least %d", m.Name, n, seconds, measured.Fewest)
	}
	return nil
}

// judgedFrom returns the index of the first request that counts. Earlier requests are not judged.
func (m *Measured) judgedFrom() int {
	first := m.Lead
	for m.Ignored != nil && first < len(m.Requests) && m.Requests[first].Arrival < *m.Ignored {
		first++
	}
	return first
}

// nameAll returns the name of the set of all judged requests.
func (m *Measured) nameAll() string {
	if m.Ignored == nil || *m.Ignored == 0 {
		return "all"
	}
	return fmt.Sprintf("all from %g s on", *m.Ignored)
}

// target holds the requests that a fit must match, with their measurements.
type target struct {
	run     *Measured
	metrics []metric
	chosen  []int // indices of requests, by arrival
	// measured has the values of the chosen requests by metric. The means do not include values that are NaN.
	measured [3][]float64
	mean     [3]float64
	// short, in s, is added to a measured wait before an error is divided by it. Without this addition, errors of
	// short waits would count too much.
	short float64
	// weight is the weight of the errors of means in the loss.
	weight float64

	shown  measured.Request // the result of requestIn
	values []float64

	// sorted, order and paired are buffers of counterparts.
	sorted [3][]float64
	order  []int
	paired []float64
}

func newTarget(m *Measured, chosen []int) *target {
	t := &target{run: m, metrics: allMetrics(), chosen: chosen, weight: meanWeight}
	for k, x := range t.metrics {
		for _, i := range chosen {
			t.measured[k] = append(t.measured[k], x.valueOf(&m.Requests[i]))
		}
		t.mean[k] = measured.MeanOf(t.measured[k])
		if k == 0 {
			t.short = min(mostShort, measured.QuantileOf(t.measured[k], 0.5))
		}
	}
	return t
}

const (
	// tolerance is the relative error of a request that counts as 1.
	tolerance  = 0.05
	mostShort  = 0.15 // s; see target.short
	meanWeight = 0.05 // weight of the squared error of a mean, in units of meanScale
	lastWeight = 0.3  // the same weight for the last stage of a fit
	meanScale  = 0.01
)

// residual returns the error of one request in units of tolerance.
func (t *target) residual(k int, simulated, real float64) float64 {
	if k == 0 {
		return (simulated - real) / (real + t.short) / tolerance
	}
	return (simulated - real) / real / tolerance
}

// loss returns the distance between an outcome and the measured run. For each metric, loss adds the mean of a robust
// error over the requests and the error of the mean. Large errors have little influence on a robust error.
func (t *target) loss(out *Outcome) float64 {
	total := 0.0
	for k := range t.measured {
		t.values = t.appendSimulated(t.values[:0], k, out)
		sum, n := 0.0, 0
		for j, m := range t.counterparts(k, t.values) {
			if !math.IsNaN(m) {
				r := t.residual(k, t.values[j], m)
				sum += 2 * (math.Sqrt(1+float64(r*r)) - 1)
				n++
			}
		}
		total += sum / float64(n)
		total += t.weight * squareOf((measured.MeanOf(t.values)/t.mean[k]-1)/meanScale)
	}
	return total
}

// requestIn returns the simulated times of the j-th chosen request. The result is valid until the next call.
func (t *target) requestIn(out *Outcome, j int) *measured.Request {
	i := t.chosen[j]
	r := &t.run.Requests[i]
	t.shown.Arrival, t.shown.Output, t.shown.First, t.shown.Last = r.Arrival, r.Output, out.First[i], out.Last[i]
	if out.Begun != nil {
		t.shown.Arrival = out.Begun[i]
	}
	return &t.shown
}

// simulated returns the values of metric k for the chosen requests in an outcome.
func (t *target) simulated(k int, out *Outcome) []float64 {
	return t.appendSimulated(make([]float64, 0, len(t.chosen)), k, out)
}

func (t *target) appendSimulated(values []float64, k int, out *Outcome) []float64 {
	for j := range t.chosen {
		r := t.requestIn(out, j)
		values = append(values, t.metrics[k].valueOf(r)+partOfWay(&out.Way, k, r.Output))
	}
	return values
}

// miss returns the relative error of the mean of metric k.
func (t *target) miss(k int, out *Outcome) float64 {
	return measured.MeanOf(t.simulated(k, out))/t.mean[k] - 1
}

// misses returns the relative errors of the means of all metrics.
func (t *target) misses(out *Outcome) []float64 {
	return []float64{t.miss(0, out), t.miss(1, out), t.miss(2, out)}
}

func squareOf(x float64) float64 { return x * x }
