// Package online replays a workload in real time: requests arrive at their
// instants of the wall clock, and each worker is a scheduler core in a loop of its
// own that really waits as long as a pass takes.
//
// A driver takes requests from the feed and starts a task for each; the task
// finds a worker through the router and waits for the end; workers hand out
// what their passes did; one demux takes it all in, owns the collector and
// lets routers and tasks know.
//
// Read config.go, run.go, driver.go, demux.go, pool.go; then worker.go with
// realize.go, which an engine can use by itself, and clock.go and timer.go;
// result.go has the report.
package online

import (
	"context"
	"errors"
	"time"

	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Config is one replay in real time.
type Config struct {
	harness.Config

	Pace

	// Warn, when not nil, is called with what went wrong without ending the replay.
	Warn func(string)
	// Raw, when not nil, is called with all changes of the workers' caches, worker by
	// worker in order; the engines are built to capture events then. It is
	// called from the workers' goroutines.
	Raw func(stage scheduler.Role, w sim.WorkerID, p *scheduler.Pass)

	hooks hooks
}

// Pace is how a replay follows the real clock.
type Pace struct {
	// NoBarrier lets a worker begin its next pass before what a completion
	// released has found its place, as the reference does.
	NoBarrier bool
	// Precise spends the end of each sleep looking at the clock, which takes a
	// processor per worker.
	Precise bool
	// Deadline ends the replay after so much real time; 0: never.
	Deadline time.Duration
}

// hooks are what tests get to see.
type hooks struct {
	task    func(*sim.Request)                               // at the start of a request's task
	looked  func()                                           // between a look at the feed and the wait for more
	arrived func(q *sim.Request, scheduled, really sim.Time) // as the demux takes it in
	pass    func(w sim.WorkerID)                             // as a pass ends, on the worker's goroutine
}

// ErrDeadline is the cause of a replay that its deadline ended.
var ErrDeadline = errors.New("the deadline passed")

// Target serves requests: workers of this process, or an endpoint elsewhere.
type Target interface {
	// Serve serves q, telling the run's Recorder of it, and returns when that is
	// over or ctx is. It calls placed as soon as q has found a worker or waits
	// for one.
	Serve(ctx context.Context, q *sim.Request, placed func()) error
}
