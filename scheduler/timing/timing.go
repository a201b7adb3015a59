// Package timing predicts how long a forward pass takes.
//
// A Model predicts milliseconds; a Clock turns them into the durations a pass
// really takes: whole nanoseconds, scaled by the speed-up. Read timing.go, then
// nanos.go, polynomial.go, table.go, npz.go, step.go, parameters.go, run.go,
// profile.go, roofline.go.
package timing

import "math"

// Model predicts how long the two parts of a forward pass take, in ms.
type Model interface {
	// Prefill returns the time for batch prompts of isl tokens each, prefix of
	// which are cached.
	Prefill(batch, isl, prefix int) float64
	// Decode returns the time of one token for batch requests. Their KV cache holds active of capacity tokens, context tokens
	// each on average.
	Decode(batch, active, context, capacity int) float64
	// ByContext reports whether Decode depends on context. When it does not, passes
	// that differ in context alone take the same time.
	ByContext() bool
}

// Clock measures passes of an engine.
type Clock struct {
	Model         Model
	Speedup       float64 // divides both parts; 0 and 1 leave them
	DecodeSpeedup float64 // divides decode once more; 0 leaves decode unscaled
	// Each token that a drafter proposes takes DraftMs, which Speedup divides, and
	// DraftShare of the pass without drafts, for all requests together.
	DraftMs, DraftShare float64

	latest apart
}

// Prefill returns the duration of a prefill part in ms. It fails when the time does
// not fit in 2^64 seconds.
func (c *Clock) Prefill(batch, isl, prefix int) (float64, error) {
	return scaleTime(c.Model.Prefill(batch, isl, prefix), c.Speedup)
}

// Decode returns the duration of a decode part in ms. It fails like Prefill.
func (c *Clock) Decode(batch, active, context, capacity int) (float64, error) {
	return scaleTime(c.Model.Decode(batch, active, context, capacity), float64(c.Speedup*c.DecodeSpeedup))
}

// exactSeconds bounds the durations that come back from Seconds as they were:
// the sum is off by less than 2^-32 s, a quarter of a nanosecond.
const exactSeconds = 1 << 20

// nanosToMS returns whole ns, less than a second, in ms, as Seconds does.
func nanosToMS(n int64) float64 { return float64(float64(float64(n)/1e9) * 1000.0) }

// roundNanos returns a time in ns as whole ones, and whether it is below 1 s and so far from
// ties that its last digits do not count.
func roundNanos(ns float64) (n int64, ok bool) {
	n = int64(ns + 0.5)
	return n, ns >= 0 && n < nanosPerSecond && math.Abs(ns-float64(n)) < 0.49
}

// leavesTimes reports whether a factor leaves times below 1 s unchanged.
func leavesTimes(factor float64) bool { return factor == 1 || factor <= 0 }

// divideNanos returns whole ns, less than a second, divided by a factor that does not leave times unchanged, like roundNanos.
func divideNanos(n int64, factor float64) (divided int64, ok bool) {
	return roundNanos(float64(float64(float64(n)/1e9) / factor * nanosPerSecond))
}

// scaleNanos rounds a time in ns, divides it by factor and rounds it again, like roundNanos.
func scaleNanos(ns, factor float64) (n int64, ok bool) {
	if n, ok = roundNanos(ns); ok && !leavesTimes(factor) {
		return divideNanos(n, factor)
	}
	return n, ok
}

func scaleTime(ms, factor float64) (float64, error) {
	// FromSeconds and Seconds of times below 1 s, away from ties.
	if n, ok := scaleNanos(float64(float64(ms/1000.0)*nanosPerSecond), factor); ok {
		return nanosToMS(n), nil
	}
	t, err := FromSeconds(ms / 1000.0)
	if err == nil && factor > 0 && !(factor == 1 && t.Sec < exactSeconds) && t != (Nanos{}) {
		t, err = FromSeconds(t.Seconds() / factor)
	}
	return float64(t.Seconds() * 1000.0), err
}
