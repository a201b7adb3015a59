// Package timing predicts how long a forward pass takes.
//
// A Model predicts times in ms. A Clock converts them to the durations of passes: whole nanoseconds, divided by the
// speed-up. Read timing.go, then nanos.go, polynomial.go, table.go, npz.go, step.go, parameters.go, run.go,
// profile.go, roofline.go.
package timing

import "math"

// Model predicts the times of the two parts of a forward pass, in ms.
type Model interface {
	// Prefill returns the time for batch prompts of isl tokens each, of which the first prefix tokens are cached.
	Prefill(batch, isl, prefix int) float64
	// Decode returns the time of one token for batch requests. The KV cache of the requests uses active of capacity
	// tokens, and each request has context tokens on average.
	Decode(batch, active, context, capacity int) float64
	// ByContext reports whether Decode depends on context. If Decode does not depend on context, passes that differ
	// only in context take the same time.
	ByContext() bool
}

// Clock computes the durations of an engine's passes.
type Clock struct {
	Model         Model
	Speedup       float64 // divides both parts; 0 and 1 change nothing
	DecodeSpeedup float64 // divides the decode part in addition; 0 changes nothing
	// DraftMs and DraftShare are the time of each token that a drafter proposes, for all requests together. The time
	// is DraftMs, divided by Speedup, plus DraftShare of the duration of the pass without drafts.
	DraftMs, DraftShare float64

	latest apart
}

// Prefill returns the duration of a prefill part in ms. Prefill returns an error if the time is 2^64 seconds or more.
func (c *Clock) Prefill(batch, isl, prefix int) (float64, error) {
	return scaleTime(c.Model.Prefill(batch, isl, prefix), c.Speedup)
}

// Decode returns the duration of a decode part in ms. Decode returns an error under the same condition as Prefill.
func (c *Clock) Decode(batch, active, context, capacity int) (float64, error) {
	return scaleTime(c.Model.Decode(batch, active, context, capacity), float64(c.Speedup*c.DecodeSpeedup))
}

// exactSeconds is the limit, in seconds, below which Seconds returns durations exactly: the sum is off by less than
// 2^-32 s, a quarter of a nanosecond.
const exactSeconds = 1 << 20

// nanosToMS converts ns, less than a second, to ms with the same rounding as Seconds.
func nanosToMS(n int64) float64 { return float64(float64(float64(n)/1e9) * 1000.0) }

// roundNanos rounds a time in ns. ok is false if the time is 1 s or more, or so close to a tie that its last digits
// matter.
func roundNanos(ns float64) (n int64, ok bool) {
	n = int64(ns + 0.5)
	return n, ns >= 0 && n < nanosPerSecond && math.Abs(ns-float64(n)) < 0.49
}

// leavesTimes reports whether division by a factor leaves times below 1 s unchanged.
func leavesTimes(factor float64) bool { return factor == 1 || factor <= 0 }

// divideNanos divides ns, less than a second, by a factor for which leavesTimes is false. divideNanos rounds like
// roundNanos.
func divideNanos(n int64, factor float64) (divided int64, ok bool) {
	return roundNanos(float64(float64(float64(n)/1e9) / factor * nanosPerSecond))
}

// scaleNanos rounds a time in ns, divides it by factor and rounds again, like roundNanos.
func scaleNanos(ns, factor float64) (n int64, ok bool) {
	if n, ok = roundNanos(ns); ok && !leavesTimes(factor) {
		return divideNanos(n, factor)
	}
	return n, ok
}

func scaleTime(ms, factor float64) (float64, error) {
	// For times below 1 s that are not close to ties, this equals FromSeconds and Seconds.
	if n, ok := scaleNanos(float64(float64(ms/1000.0)*nanosPerSecond), factor); ok {
		return nanosToMS(n), nil
	}
	t, err := FromSeconds(ms / 1000.0)
	if err == nil && factor > 0 && !(factor == 1 && t.Sec < exactSeconds) && t != (Nanos{}) {
		t, err = FromSeconds(t.Seconds() / factor)
	}
	return float64(t.Seconds() * 1000.0), err
}
