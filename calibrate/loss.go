package calibrate

import "math"

// metric is a quantity of a request that is compared, in s.
type metric struct {
	name     string
	measured func(*Request) float64
}

func allMetrics() []metric {
	return []metric{{"TTFT", (*Request).TTFT}, {"TPOT", (*Request).TPOT}, {"E2E", (*Request).E2E}}
}

// warmUp is the time in s after the start of a run in which a server is still
// loading and compiling: what arrives then is simulated and not fitted to.
const warmUp = 2

// target is what a fit is to reach: the requests it may use, with what was measured
// of them.
type target struct {
	run    *Measured
	chosen []int // requests, by arrival
	// measured by metric, for the chosen ones; mean is of those that are numbers.
	measured [3][]float64
	mean     [3]float64
	// short, in s, is added to measured waits that errors are relative to, so that
	// short ones do not count by their share alone.
	short float64
	// weight is the weight of the errors of means in the loss.
	weight float64
}

func newTarget(m *Measured, chosen []int) *target {
	t := &target{run: m, chosen: chosen, weight: meanWeight}
	for k, x := range allMetrics() {
		for _, i := range chosen {
			t.measured[k] = append(t.measured[k], x.measured(&m.Requests[i]))
		}
		t.mean[k] = meanOf(t.measured[k])
		if k == 0 {
			t.short = min(mostShort, quantileOf(t.measured[k], 0.5))
		}
	}
	return t
}

const (
	// tolerance is the relative error of a request that counts as one.
	tolerance  = 0.05
	mostShort  = 0.15 // s, see target.short
	meanWeight = 0.05 // of a mean's error of meanScale, squared
	lastWeight = 0.3  // the same where a fit is as good as done
	meanScale  = 0.01
)

// residual returns the error of one request, in tolerances.
func (t *target) residual(k int, simulated, measured float64) float64 {
	if k == 0 {
		return (simulated - measured) / (measured + t.short) / tolerance
	}
	return (simulated - measured) / measured / tolerance
}

// loss returns how far an outcome is from the measured run: for each metric the
// mean over requests of an error that large ones do not rule, and the error of
// the mean.
func (t *target) loss(out *Outcome, space []float64) float64 {
	total := 0.0
	for k := range t.measured {
		values := t.simulated(k, out, space)
		sum, n, simulated := 0.0, 0, 0.0
		for j, s := range values {
			m := t.measured[k][j]
			if math.IsNaN(m) {
				continue
			}
			r := t.residual(k, s, m)
			sum += 2 * (math.Sqrt(1+float64(r*r)) - 1)
			simulated += s
			n++
		}
		total += sum / float64(n)
		total += t.weight * squareOf((simulated/float64(n)/t.mean[k]-1)/meanScale)
	}
	return total
}

// simulated returns metric k of the chosen requests, in space.
func (t *target) simulated(k int, out *Outcome, space []float64) []float64 {
	space = space[:0]
	for _, i := range t.chosen {
		r := &t.run.Requests[i]
		s := Request{Arrival: r.Arrival, First: out.First[i], Last: out.Last[i], Output: r.Output}
		space = append(space, allMetrics()[k].measured(&s))
	}
	return space
}

// misses returns the relative errors of the means.
func (t *target) misses(out *Outcome, space []float64) (all [3]float64) {
	for k := range all {
		sum, n := 0.0, 0
		for j, s := range t.simulated(k, out, space) {
			if !math.IsNaN(t.measured[k][j]) {
				sum += s
				n++
			}
		}
		all[k] = sum/float64(n)/t.mean[k] - 1
	}
	return all
}

func squareOf(x float64) float64 { return x * x }
