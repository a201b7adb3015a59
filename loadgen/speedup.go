package loadgen

import "github.com/replay-llm/replay/sim"

// bend is an instant from which times run faster, by a factor, than they would have.
type bend struct {
	at     sim.Time
	factor sim.Time
}

// SetSpeedup changes the divisor of times: of starts of sessions after now, and of delays that begin from now on. In
// concurrency mode it changes nothing.
func (f *Feed) SetSpeedup(now sim.Time, speedup float64) {
	t := &f.times
	if t.closed {
		return
	}
	t.bends = append(t.bends, bend{now, sim.Time(speedup) / t.speedup})
	t.speedup = sim.Time(speedup)
	f.findFresh()
}

// bendTime returns when something happens that would have happened at an instant by the speed-up of the start.
func (t *times) bendTime(at sim.Time) sim.Time {
	for _, b := range t.bends {
		if at > b.at {
			at = b.at + (at-b.at)/b.factor
		}
	}
	return at
}
