package online

import (
	"time"

	"github.com/replay-llm/replay/sim"
)

// Clock is the real clock of a run, in ms since its start.
type Clock struct{ start time.Time }

// NewClock is a clock that starts now.
func NewClock() *Clock { return &Clock{time.Now()} }

// Now is the time on the clock.
func (c *Clock) Now() sim.Time { return sim.Time(time.Since(c.start).Nanoseconds()) / 1e6 }

// At is the time on the clock at an instant.
func (c *Clock) At(t time.Time) sim.Time { return sim.Time(t.Sub(c.start).Nanoseconds()) / 1e6 }

// timeUntil is how long it takes until the clock shows at.
func (c *Clock) timeUntil(at sim.Time) time.Duration {
	ms := float64(at - c.Now())
	if ms > maxSleepMS {
		ms = maxSleepMS
	}
	return time.Duration(ms * 1e6)
}

// maxSleepMS bounds one sleep; who sleeps longer sleeps again.
const maxSleepMS = 1e9

// spin is how long before its end a sleep turns into looking at the clock, for
// who wants to be precise at any price. It is longer than a timer is late.
const spin = sim.Time(1.2)
