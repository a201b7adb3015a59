package schedulertest

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
)

// Twin is embedded by simple reimplementations of a core. Twins run one pass at a time and support only Submit, Step
// and Load.
type Twin struct{ scheduler.Base }

// Cut is not supported.
func (Twin) Cut(*scheduler.Pass, int) { panic("the plain twin takes one pass at a time") }

// Cancel is not supported.
func (Twin) Cancel(sim.Time, sim.RequestID, *scheduler.Pass) bool {
	panic("the plain twin has no Cancel")
}

// Progress is not supported.
func (Twin) Progress(func(id sim.RequestID, tokens int, last sim.Time)) {
	panic("the plain twin has no Progress")
}

// SetClock is not supported.
func (Twin) SetClock(timing.Clock) { panic("the plain twin has one clock") }
