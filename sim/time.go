// Package sim holds the words every other package speaks: instants, ids and
// requests. It is a leaf: it imports nothing of the project but prompt.
//
// Read time.go, then request.go, then rand.go.
package sim

// Time is an instant of the logical clock or a span of it, in milliseconds.
// The clock starts at 0.
type Time float64

// MaxTime is the latest instant that a workload may name, in ms: a date of the year 2286, at which an instant is still
// known to 2 µs.
const MaxTime = 1e13

// Max0 returns t, or 0 when t is negative.
func (t Time) Max0() Time {
	if t > 0 {
		return t
	}
	return 0
}
