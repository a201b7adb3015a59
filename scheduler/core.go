// Package scheduler is the contract between a simulated engine's scheduler (a
// core) and the harness that gives it time.
//
// A core is stepped one forward pass at a time and returns what the pass did;
// it holds no clock, goroutine, logger or report. Read core.go, pass.go,
// kv.go, role.go, then the timing package; vllm and sglang are the cores.
package scheduler

import (
	"fmt"

	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Core is one engine's scheduler.
//
// The same calls always fill the same passes.
type Core interface {
	// Submit queues r. No time passes.
	Submit(r *sim.Request)
	// Step plans and runs the pass that starts at now and replaces *p with what
	// it did. When the passes after it are all alike and start before until,
	// the core may take them too: p.Count is how many it took. It always takes
	// at least one pass; until <= now asks for exactly one. A pass that only waits
	// may end when a request is submitted during it, by Pass.EndWait.
	//
	// The harness steps only a core with Load() > 0 whose last pass has ended.
	// A *StallError means that nothing can run and nothing that is still to
	// come could change that.
	Step(now, until sim.Time, p *Pass) error
	// Cut gives back the passes of the run p after the first keep, as if Step
	// had been given an earlier until; 1 <= keep <= p.Count. Only the run of
	// the latest Step can be cut, and only when nothing was submitted since.
	Cut(p *Pass, keep int)
	// Load is the number of requests submitted and not finished.
	Load() int
}

// Canceler is a core that can let go of a request before its last token.
type Canceler interface {
	// Cancel takes a request out and gives back its KV blocks; the prefixes it
	// has cached stay cached. It is called between passes, and no run of before
	// may be cut after it. It replaces *p with a pass of no length with what
	// happened to the cache, and how full the engine is, and reports false,
	// having changed nothing, when the request is not on the core.
	Cancel(now sim.Time, id sim.RequestID, p *Pass) bool
}

// Roomer is a core that knows how much room it has.
type Roomer interface {
	// Room returns the KV blocks that nobody holds, less those that the requests in line have to
	// hold for the tokens they have; below 0 when these are more. It is called between passes.
	Room() int
}

// Keeper is a core that may have been built to keep the KV blocks of requests that have left it with
// their last token, until they have been sent. Where nothing can run before some of them come back, its
// Step sets Pass.Blocked.
type Keeper interface {
	// Release gives back the blocks that are kept of a request, last to first; prefixes stay cached. It
	// is called between passes, and reports false when there are none.
	Release(id sim.RequestID) bool
}

// Rememberer is a core that can say of which prompt nodes it has KV blocks, requests on it aside.
type Rememberer interface {
	// Nodes calls need with every node of which something is cached, in no order that means anything.
	Nodes(need func(prompt.NodeID))
}

// Snapshotter is a core that can show a planner what its latest pass did. It
// must have been built to keep what that takes, and then takes one pass at a
// time.
type Snapshotter interface {
	Snapshot(p *Pass) Snapshot
}

// Progresser is a core that knows how far the requests on it have come.
type Progresser interface {
	// Progress yields every request that has gained a token and not its last,
	// with the number of its tokens and the instant of the latest.
	Progress(yield func(id sim.RequestID, tokens int, last sim.Time))
}

// Paced is a core whose passes may take another time from some instant on: not one that is in progress.
type Paced interface {
	SetClock(c timing.Clock)
}

// Teller is a core that keeps to itself for a while what happens to its cache.
type Teller interface {
	// TellIdle adds to p, the core's latest pass, which is over, what has not been told yet,
	// if nobody is on the core now.
	TellIdle(p *Pass)
}

// TellIdle lets core tell what it does when it falls idle at the end of p.
func TellIdle(core Core, p *Pass) {
	if t, ok := core.(Teller); ok {
		t.TellIdle(p)
	}
}

// StallError reports a core in which nothing can run although requests wait.
type StallError struct {
	Request sim.RequestID // the request at the head of the line
	Reason  string        // what it needs and what there is, with numbers
}

func (e *StallError) Error() string {
	return fmt.Sprintf("request %d: %s", e.Request, e.Reason)
}

// OversizeError reports a request that can never run on an engine, however
// idle it is.
type OversizeError struct {
	Input, Output int    // tokens
	Reason        string // what it needs and what there is, with numbers
	// Blocks is the smallest number of blocks that would admit the request; 0
	// when a larger pool would not help.
	Blocks int
}

func (e *OversizeError) Error() string {
	return fmt.Sprintf("input_length %d, output_length %d: %s", e.Input, e.Output, e.Reason)
}
