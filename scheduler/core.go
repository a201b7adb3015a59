// Package scheduler is the interface between a simulated engine's scheduler (a core) and the harness that controls
// its time.
//
// The harness steps a core one forward pass at a time, and the core returns the result of the pass. A core has no
// clock, goroutine, logger or report. Read core.go, pass.go, kv.go, role.go, then the timing package; vllm and sglang
// are the cores.
package scheduler

import (
	"fmt"

	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Core is the scheduler of one engine.
//
// The same calls always produce the same passes.
type Core interface {
	// Submit queues r. Submit takes no simulated time.
	Submit(r *sim.Request)
	// Step plans and runs the pass that starts at now and replaces *p with its result. If the following passes are
	// equal to the first pass and start before until, the core may run them too; p.Count is the number of passes run.
	// Step always runs at least one pass, and exactly one if until <= now. If a request is submitted during a pass
	// that only waits, Pass.EndWait may end the pass.
	//
	// The harness calls Step only if Load() > 0 and the last pass has ended. A *StallError means that no request can
	// run, and no later event can change this.
	Step(now, until sim.Time, p *Pass) error
	// Cut releases the passes of the run p after the first keep passes, as if Step had been given an earlier until; 1
	// <= keep <= p.Count. Only the run of the latest Step can be cut, and only if nothing was submitted since.
	Cut(p *Pass, keep int)
	// Load is the number of submitted requests that are not finished.
	Load() int
	// Cancel removes a request and releases its KV blocks; its cached prefixes stay cached. Cancel is called between
	// passes, and earlier runs cannot be cut after it. Cancel replaces *p with a pass of zero length that contains
	// the changes of the cache and the occupancy of the engine. If the request is not on the core, Cancel returns
	// false and changes nothing.
	Cancel(now sim.Time, id sim.RequestID, p *Pass) bool
	// Progress yields every request that has gained a token but not its last token, with its number of tokens and the
	// instant of the latest token.
	Progress(yield func(id sim.RequestID, tokens int, last sim.Time))
	// SetClock sets the durations of the passes after the current pass.
	SetClock(c timing.Clock)
	// ReportIdle adds to p, the core's latest pass, the changes of the cache that the core has not reported yet, if the
	// core has no request now. The pass p has ended.
	ReportIdle(p *Pass)

	// Able returns the optional abilities of the core. The methods below are called only on cores with the ability.
	Able() Ability
	// Room returns the number of KV blocks without a holder, minus the blocks that queued requests need for their
	// current tokens. The result can be negative. Room is called between passes. [Rooms]
	Room() int
	// Release releases the KV blocks that are kept for a request, last to first; prefixes stay cached. Release
	// returns false if the worker keeps no such blocks. Release is called between passes. [Keeps]
	Release(id sim.RequestID) bool
	// NoteTransfer records that a KV cache of Pass.Pulls was read completely at the given instant. NoteTransfer is
	// called on the decode worker and on the prefill worker, in the order of the instants. NoteTransfer may be called
	// during a pass. [Pulls]
	NoteTransfer(id sim.RequestID, at sim.Time)
	// Nodes calls need for every prompt node with cached KV blocks, in unspecified order. Requests on the core are
	// not counted. [Remembers]
	Nodes(need func(prompt.NodeID))
	// Snapshot returns a planner's view of p, the latest pass. The core must be configured to keep the data for it,
	// and then runs one pass per Step. [Shows]
	Snapshot(p *Pass) Snapshot
	// Cache returns the content of the prefix cache. [Warms]
	Cache() Cache
	// Warm fills the cache of a new core. If the core has fewer blocks, the blocks that do not fit count as evicted.
	// Warm replaces *p with a pass of zero length that contains the newly cached blocks. An error about one of the
	// blocks is a *CacheError. [Warms]
	Warm(c *Cache, p *Pass) error
}

// Ability is a set of bits for the optional abilities of a core.
type Ability uint8

const (
	// Rooms is the ability to report free KV blocks: Core.Room.
	Rooms Ability = 1 << iota
	// Keeps is the ability to keep the KV blocks of requests that have left with their last token, until the blocks
	// have been sent: Core.Release. If nothing can run before some kept blocks are released, Step sets Pass.Blocked.
	Keeps
	// Remembers is the ability to list the cached prompt nodes: Core.Nodes.
	Remembers
	// Shows is the ability to show passes to a planner: Core.Snapshot.
	Shows
	// Warms is the ability to list the prefix cache and to start with a given one: Core.Cache, Core.Warm.
	Warms
	// Pulls is the ability of a decode worker to read KV caches from prefill workers, and of a prefill worker to keep
	// blocks until they have been read: Pass.Pulls, Core.NoteTransfer. If nothing can run before a KV cache has been
	// read, Step sets Pass.Blocked.
	Pulls
)

// Has reports whether all bits of x are set.
func (a Ability) Has(x Ability) bool { return a&x == x }

// Base provides the methods for optional abilities to cores that embed it. Base has none of the abilities: a core
// with an ability overrides its method and Able.
type Base struct{}

// Able returns no ability.
func (Base) Able() Ability { return 0 }

// ReportIdle adds nothing: the core reports each change of its cache with the pass.
func (Base) ReportIdle(*Pass) {}

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
	Request sim.RequestID // the request at the head of the queue
	Reason  string        // required and available amounts, with numbers
}

func (e *StallError) Error() string {
	return fmt.Sprintf("request %d: %s", e.Request, e.Reason)
}

// OversizeError reports a request that can never run on an engine, even if the engine is idle.
type OversizeError struct {
	Input, Output int    // tokens
	Reason        string // required and available amounts, with numbers
	// Blocks is the smallest number of blocks that would admit the request, or 0 if a larger pool would not help.
	Blocks int
}

func (e *OversizeError) Error() string {
	return fmt.Sprintf("input_length %d, output_length %d: %s", e.Input, e.Output, e.Reason)
}
