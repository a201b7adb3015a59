// Package scheduler is the contract between a simulated engine's scheduler (a
// core) and the harness that gives it time.
//
// A core is stepped one forward pass at a time and returns the result of the pass; it has no clock, goroutine, logger
// or report. Read core.go, pass.go, kv.go, role.go, then the timing package; vllm and sglang are the cores.
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
	// The harness steps only a core with Load() > 0 and an ended last pass.
	// A *StallError means that nothing can run and nothing that is still to
	// come could change that.
	Step(now, until sim.Time, p *Pass) error
	// Cut releases the passes of the run p after the first keep, as if Step
	// had been given an earlier until; 1 <= keep <= p.Count. Only the run of
	// the latest Step can be cut, and only when nothing was submitted since.
	Cut(p *Pass, keep int)
	// Load is the number of requests submitted and not finished.
	Load() int
	// Cancel takes a request out and releases its KV blocks; the prefixes it
	// has cached stay cached. It is called between passes, and no run of before
	// may be cut after it. It replaces *p with a pass of no length with what
	// happened to the cache, and how full the engine is, and reports false,
	// having changed nothing, when the request is not on the core.
	Cancel(now sim.Time, id sim.RequestID, p *Pass) bool
	// Progress yields every request that has gained a token and not its last,
	// with the number of its tokens and the instant of the latest.
	Progress(yield func(id sim.RequestID, tokens int, last sim.Time))
	// SetClock sets how long the passes after the one in progress take.
	SetClock(c timing.Clock)
	// TellIdle adds to p, the core's latest pass, which is over, the changes of
	// its cache that it has not reported yet, if it has no request now.
	TellIdle(p *Pass)

	// Able returns what else the core can do. The methods below are called only
	// on cores that can.
	Able() Ability
	// Room returns the KV blocks that no request holds, less the blocks that the requests in line have to
	// hold for the tokens they have; below 0 when these are more. It is called between passes. [Rooms]
	Room() int
	// Release releases the blocks that are kept of a request, last to first; prefixes stay cached. It
	// is called between passes, and reports false when there are none. [Keeps]
	Release(id sim.RequestID) bool
	// NoteTransfer notes that a KV cache of Pass.Pulls was read as a whole, on its decode worker and on its prefill
	// worker, at an instant not before that of the latest note. It may be called during a pass. [Pulls]
	NoteTransfer(id sim.RequestID, at sim.Time)
	// Nodes calls need with every prompt node of which KV blocks are cached, requests on the core
	// aside, in no order that means anything. [Remembers]
	Nodes(need func(prompt.NodeID))
	// Snapshot returns what a planner sees of p, the latest pass. The core must have been built to
	// keep what that takes, and then takes one pass at a time. [Shows]
	Snapshot(p *Pass) Snapshot
	// Cache returns what the prefix cache holds. [Warms]
	Cache() Cache
	// Warm fills the cache of a core that has done nothing yet: where it has fewer blocks, as if the
	// blocks that do not fit had been evicted. It replaces *p with a pass of no length with the blocks
	// that have become cached. An error about one of the blocks is a *CacheError. [Warms]
	Warm(c *Cache, p *Pass) error
}

// Ability is what a core can do in addition to running passes, as bits.
type Ability uint8

const (
	// Rooms is the ability to report free KV blocks: Core.Room.
	Rooms Ability = 1 << iota
	// Keeps is the ability to keep the KV blocks of requests that have left with their last token, until
	// they have been sent: Core.Release. Where nothing can run before some of them come back, Step sets
	// Pass.Blocked.
	Keeps
	// Remembers is the ability to list the prompt nodes that are cached: Core.Nodes.
	Remembers
	// Shows is the ability to show passes to a planner: Core.Snapshot.
	Shows
	// Warms is the ability to list a prefix cache, and to begin with one: Core.Cache, Core.Warm.
	Warms
	// Pulls is the ability of a decode worker to read KV caches from prefill workers, and of a prefill worker to keep
	// blocks until they have been read: Pass.Pulls, Core.NoteTransfer. Where nothing can run before, Step sets
	// Pass.Blocked.
	Pulls
)

// Has reports whether all of the bits x are set.
func (a Ability) Has(x Ability) bool { return a&x == x }

// Base is embedded by cores for the methods that only some of them have. It is able to do none of
// them: a core that has one overrides the method and Able.
type Base struct{}

// Able returns no ability.
func (Base) Able() Ability { return 0 }

// TellIdle adds nothing: the core reports each change with its pass.
func (Base) TellIdle(*Pass) {}

// Room is not supported.
func (Base) Room() int { panic("scheduler: Room of a core that is not able to: requires Rooms") }

// Release is not supported.
func (Base) Release(sim.RequestID) bool {
	panic("scheduler: Release of a core that is not able to: requires Keeps")
}

// NoteTransfer is not supported.
func (Base) NoteTransfer(sim.RequestID, sim.Time) {
	panic("scheduler: NoteTransfer of a core that is not able to: requires Pulls")
}

// Nodes is not supported.
func (Base) Nodes(func(prompt.NodeID)) {
	panic("scheduler: Nodes of a core that is not able to: requires Remembers")
}

// Snapshot is not supported.
func (Base) Snapshot(*Pass) Snapshot {
	panic("scheduler: Snapshot of a core that is not able to: requires Shows")
}

// Cache is not supported.
func (Base) Cache() Cache { panic("scheduler: Cache of a core that is not able to: requires Warms") }

// Warm is not supported.
func (Base) Warm(*Cache, *Pass) error {
	panic("scheduler: Warm of a core that is not able to: requires Warms")
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
