package watch

import (
	"math"

	"github.com/replay-llm/replay/sim"
)

// memory is the time after which the weight of an event is 1/e.
const memory sim.Time = 10_000

// rate is a recent rate on the logical clock: a mean with weights that decrease with age.
type rate struct {
	sum float64 // of what was counted, each with its weight
}

// addOver counts n events, spread evenly over a time after an idle time.
func (r *rate) addOver(idle, length sim.Time, n int) {
	r.sum *= math.Exp(-float64((idle + length) / memory))
	share := 1.0
	if x := float64(length / memory); x > 0 {
		share = -math.Expm1(-x) / x
	}
	r.sum += float64(float64(n) * share)
}

// perSecond returns the mean of a worker's rate at the given time, since its first pass or over its memory.
func (r *rate) perSecond(w *worker, now sim.Time) float64 {
	span := -math.Expm1(-float64((now-w.from)/memory)) * float64(memory) / 1000
	if !(span > 0) {
		return 0
	}
	return r.sum * math.Exp(-float64((now-w.at).Max0()/memory)) / span
}
