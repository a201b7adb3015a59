// Package sim defines the types that all other packages use: instants, ids and requests. Package sim imports no
// package of the project except prompt.
//
// Read time.go, then request.go, then rand.go.
package sim

// Time is an instant of the simulated clock or a duration, in milliseconds. The clock starts at 0.
type Time float64

// MaxTime is the latest instant allowed in a workload, in ms: a date of the year 2286. At that instant, the
// resolution of Time is still 2 µs.
const MaxTime = 1e13

// Max0 returns the larger of t and 0.
func (t Time) Max0() Time {
	if t > 0 {
		return t
	}
	return 0
}
