package scheduler

import (
	"math"

	"github.com/replay-llm/replay/sim"
)

// Repeat returns the closed form of a run of passes that take d each. The run starts with t = start and sets t = t +
// d up to n times while t < until, rounded to float64 each time. The first pass always runs.
//
// Repeat returns the number of passes, the end of the last pass, and the common difference between the end and the
// start of each pass. Repeat stops early if this difference changes, and the caller then calls it again. Within one
// binade the float64s are evenly spaced by u, so that t + d rounds to t + g for a fixed g. The difference can change
// at the end of the binade, or if d is halfway between two multiples of u.
func Repeat(start, d sim.Time, n int, until sim.Time) (count int, end, gap sim.Time) {
	end = start + d
	gap = end - start
	if n <= 1 || !(end < until) {
		return 1, end, gap
	}
	if gap == 0 {
		return n, end, 0
	}
	if start <= 0 {
		return 1, end, gap
	}
	_, exp := math.Frexp(float64(start))
	top := sim.Time(math.Ldexp(1, exp)) // the end of the binade: start < top
	u := sim.Time(math.Ldexp(1, exp-53))
	if end >= top || 2*math.Abs(float64(gap-d)) >= float64(u) {
		return 1, end, gap
	}
	if room := int64((top - start) / gap); int64(n) > room {
		n = int(room)
	}
	if stop := float64((until - start) / gap); stop < float64(n) {
		n = int(stop) + 1
	}
	for n > 1 && (start+sim.Time(float64(n)*float64(gap)) > top || start+sim.Time(float64(n-1)*float64(gap)) >= until) {
		n--
	}
	return n, start + sim.Time(float64(n)*float64(gap)), gap
}
