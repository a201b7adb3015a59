package harness

import (
	"time"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/sim"
)

// Result is what a replay leaves.
type Result struct {
	Report    *collector.Report
	Collector *collector.Collector
	// Partial reports whether the replay was ended while requests were left.
	Partial bool
	// Rejected are the requests turned away because no engine could run them.
	Rejected []Rejection

	// The rest is of replays in real time.

	// Cause is why the replay ended early; nil if it came to its end.
	Cause error
	// Cancelled is the number of requests that had arrived and were not done when
	// the replay ended.
	Cancelled int
	Failed    []Failure // the requests that ended with an error
}

// Rejection is a request that was turned away.
type Rejection struct {
	Request sim.RequestID
	Place   string // in the trace
	Err     error  // why it cannot run
}

// Failure is a request that ended with an error.
type Failure struct {
	Request sim.RequestID
	Place   string // in the trace
	Worker  sim.WorkerID
	Err     error
}

// Report derives the report of what has been collected, with the real time that
// the replay took.
func (r *Run) Report(wall time.Duration, extra ...collector.Field) *collector.Report {
	report := r.Collector.Report(0)
	report.SetWall(wall)
	report.Extra = append(report.Extra, extra...)
	return report
}
