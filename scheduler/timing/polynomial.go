package timing

import (
	"slices"

	"github.com/replay-llm/replay/sim"
)

// Polynomial is the reference's default model. Polynomial was fitted to one GPU's profile, as polynomials of the
// prompt tokens to compute and of the used share of the KV cache.
type Polynomial struct{}

// ByContext returns false: times depend only on the KV cache in use.
func (Polynomial) ByContext() bool { return false }

// Prefill returns a time that is quadratic in the tokens to compute.
func (Polynomial) Prefill(batch, isl, prefix int) float64 {
	t := float64(batch * max(isl-prefix, 0))
	ms := float64(4.209989e-07*float64(t*t)) + float64(1.518344e-02*t)
	return max(ms+1.650142e+01, 0)
}

// Decode returns a time that is quadratic in the used share of the KV cache, and at least 1 ms.
func (Polynomial) Decode(_, active, _, capacity int) float64 {
	p := 1.0
	if capacity > 0 {
		p = float64(active) / float64(capacity)
	}
	ms := float64(-25.74*float64(p*p)) + float64(54.01*p)
	return max(ms+5.74, 1)
}

// sharesOf returns the model if its times depend on the used share of the KV cache. The result type is not an
// interface, so that the arguments of repeatShares stay on the stack.
func sharesOf(m Model) (p Polynomial, ok bool) {
	p, ok = m.(Polynomial)
	return p, ok
}

// repeatShares implements Clock.Repeat for passes that only decode, with times divided by factor. repeatShares stops
// before the first pass that needs the slow path of scaleTime.
func (p Polynomial) repeatShares(factor float64, s *Step, r *Run) {
	from := len(r.Ends)
	ends, nanos := slices.Grow(r.Ends, r.Most-from)[:r.Most], slices.Grow(r.Nanos, r.Most-from)[:r.Most]
	n, until, end := from, r.Until, r.End
	active, length, step := s.Active, s.DecodeLength, s.Decodes
	divides := !leavesTimes(factor)
	for n < len(ends) && n < len(nanos) && (n == 0 || end < until) {
		ms := p.Decode(0, active, 0, s.Capacity)
		took, ok := roundNanos(float64(float64(ms/1000.0) * nanosPerSecond))
		if ok && divides {
			took, ok = divideNanos(took, factor)
		}
		next := end + sim.Time(nanosToMS(took))
		if !ok || next == end {
			break
		}
		ends[n], nanos[n] = next, took
		end = next
		n++
		if length += step; s.ByTokens {
			active = min(length, s.Capacity)
		}
	}
	s.Grow(n - from)
	r.End, r.Ends, r.Nanos = end, ends[:n], nanos[:n]
}
