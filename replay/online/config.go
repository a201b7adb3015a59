// Package online replays a workload in real time (online.md part 1): requests
// arrive at their instants of the wall clock, and each worker is a scheduler
// core in a loop of its own that really waits as long as a pass takes.
//
// A driver takes requests from the feed and starts a task for each; the task
// finds a worker through the router and waits for the end; workers hand out
// what their passes did; one demux takes it all in, owns the collector and
// tells routers and tasks.
//
// Read config.go, run.go, driver.go, demux.go, pool.go; then worker.go with
// realize.go, which an engine can use by itself, and clock.go and timer.go;
// handoff.go is what prefill and decode pools need, result.go the report.
package online

import (
	"context"
	"errors"
	"time"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Config is one replay in real time.
type Config struct {
	Workload  *loadgen.Workload
	Admission loadgen.Admission

	engines.Topology

	// NoBarrier lets a worker begin its next pass before what a completion
	// released has found its place, as the reference does.
	NoBarrier bool
	// Precise spends the end of each sleep looking at the clock, which takes a
	// processor per worker.
	Precise bool
	// Deadline ends the replay after so much real time; 0: never.
	Deadline time.Duration

	// Progress, when not nil, is told now and then how many requests have
	// finished.
	Progress func(finished int)
	// Warn, when not nil, is told of what went wrong without ending the replay.
	Warn func(string)
	// Observer, when not nil, is shown everything that happens, from one
	// goroutine.
	Observer Observer
	// Raw, when not nil, is told of all changes of the workers' caches, worker by
	// worker in order; the engines are built to capture events then. It is
	// called from the workers' goroutines.
	Raw func(stage scheduler.Role, w sim.WorkerID, p *scheduler.Pass)

	hooks hooks
}

// hooks are what tests get to see.
type hooks struct {
	task    func(*sim.Request)                               // at the start of a request's task
	looked  func()                                           // between a look at the feed and the wait for more
	arrived func(q *sim.Request, scheduled, really sim.Time) // as the demux takes it in
	pass    func(w sim.WorkerID)                             // as a pass ends, on the worker's goroutine
}

// Observer is shown what happens. What it is handed is valid during the call.
type Observer interface {
	// Arrived shows a request that enters the cluster.
	Arrived(q *sim.Request, at sim.Time)
	// Routed shows a request that is given to a worker of a stage.
	Routed(stage scheduler.Role, at sim.Time, p *router.Placement)
	// Handoff shows a request whose KV cache leaves the prefill worker at one
	// instant and reaches the decode stage at another.
	Handoff(id sim.RequestID, from, to sim.Time)
	// Pass shows a pass, with Detail, in the real instants of its begin and end.
	Pass(stage scheduler.Role, w sim.WorkerID, p *scheduler.Pass)
}

// ErrDeadline is the cause of a replay that its deadline ended.
var ErrDeadline = errors.New("the deadline passed")

// Result is what a replay leaves.
type Result struct {
	Report    *collector.Report
	Collector *collector.Collector
	Stats     Stats
	// Cause is why the replay ended early: ErrDeadline, or the cause of the end
	// of its context. It is nil for a replay that came to its end.
	Cause error
	// Cancelled is the number of requests that had arrived and were not done when
	// the replay ended.
	Cancelled int
	// Failed are the requests that ended with an error.
	Failed []Failure
}

// Partial says that the replay ended early.
func (r *Result) Partial() bool { return r.Cause != nil }

// Failure is a request that ended with an error.
type Failure struct {
	Request sim.RequestID
	Place   string // in the trace
	Worker  sim.WorkerID
	Err     error
}

// Stats count what a replay's parts did.
type Stats struct {
	Dispatched    []sim.WorkerID // where requests went, in order
	MaxInFlight   int            // requests under way at once, the most of any time
	PrefillMarked int            // calls of a router after a first token
	Freed         int            // calls of a router after a last token
}

// Target serves requests: workers of this process, or an endpoint elsewhere.
type Target interface {
	// Serve serves q, telling the run's Recorder of it, and returns when that is
	// over or ctx is. It calls placed as soon as q has found a worker or waits
	// for one.
	Serve(ctx context.Context, q *sim.Request, placed func()) error
}
