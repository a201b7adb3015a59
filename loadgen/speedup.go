package loadgen

import "github.com/replay-llm/replay/sim"

// bend is a time from which times advance faster by a factor.
type bend struct {
	at     sim.Time
	factor sim.Time
}

// SetSpeedup changes the speed-up of sessions that start after now and of delays that begin after now. In concurrency
// mode SetSpeedup has no effect.
func (f *Feed) SetSpeedup(now sim.Time, speedup float64) {
	t := &f.times
	if t.closed {
		return
	}
	t.bends = append(t.bends, bend{now, sim.Time(speedup) / t.speedup})
	t.speedup = sim.Time(speedup)
	f.findFresh()
}

// bendTime converts a time with the initial speed-up to a time with all changes of the speed-up.
func (t *times) bendTime(at sim.Time) sim.Time {
	for _, b := range t.bends {
		if at > b.at {
			at = b.at + (at-b.at)/b.factor
		}
	}
	return at
}
