// Package custom lets a program bring an engine: a type that decides, pass by pass, which requests get how many tokens
// and which are preempted. The core has everything else: the KV blocks and the prefix cache, the records of requests,
// pass times, and the view of the router.
//
// Read engine.go, what an engine is; plan.go, what it may do; firstcome.go, an engine; then core.go, pool.go and pass.go for what is
// done around it.
package custom

import (
	"fmt"

	"github.com/replay-llm/replay/sim"
)

// Engine decides what the passes of one worker compute. Each worker has a separate engine, and engines
// share nothing that changes: they are asked in no order that means anything.
//
// The same questions have to get the same answers, or two replays of one trace differ: no clock, no goroutine
// and no order of a map.
type Engine interface {
	// Plan decides what the pass that starts now computes, by the methods of p, which is the engine's until
	// Plan returns. It is asked when a pass begins, while requests are on the worker, and may plan nothing only
	// with WaitUntil.
	Plan(p *Plan)
}

// Options are what an engine is made of: its worker, and the arguments of the cluster's engines.
// Plans are held to Blocks alone.
type Options struct {
	Worker           sim.WorkerID
	Blocks           int    // KV blocks, at least 1
	BlockTokens      int    // tokens per KV block
	MaxSeqs          int    // requests that should run at once; 0: no limit
	MaxBatchedTokens int    // tokens that a pass should compute; 0: no limit
	ChunkedPrefill   bool   // prompts may be computed in parts
	PrefixCaching    bool   // what prompts share is found in KV blocks of earlier ones
	Seed             uint64 // for what is drawn
}

// Request is a request on a worker. It is read-only: the replay keeps separate books, and a write to it misleads the
// engine alone.
type Request struct {
	ID       sim.RequestID // its place in the order of arrivals at the cluster
	Class    int32         // its place among the classes of the workload; 0 if there are none
	Priority int32         // the least is the most urgent; 0 if nothing is said
	Session  int32         // in the workload
	Turn     int32         // in its session
	Arrived  sim.Time      // at the cluster
	Input    int           // tokens of its prompt
	Output   int           // tokens of its answer, which no real engine knows beforehand

	Generated int // tokens of its answer so far
	Computed  int // tokens of prompt and answer with KV; 0 while it waits
	Blocks    int // KV blocks that it holds; 0 while it waits
	Preempted int // how often it has lost its place
}

// Left returns the tokens that must be computed before r gains its next one: the rest of its prompt, 1 while it
// decodes, or all tokens of prompt and answer after a preemption. A request that waits finds some of them cached, by
// Plan.Cached.
func (r *Request) Left() int { return r.Input + r.Generated - r.Computed }

// Decodes reports whether r runs and has one token to compute, for the next one of its answer.
func (r *Request) Decodes() bool { return r.Generated > 0 && r.Left() == 1 }

// PlanError reports what an engine planned that cannot be done.
type PlanError struct {
	Request sim.RequestID // -1: no single one
	Reason  string
}

func (e *PlanError) Error() string {
	if e.Request < 0 {
		return "the plan of the engine: " + e.Reason
	}
	return fmt.Sprintf("the plan of the engine: request %d %s", e.Request, e.Reason)
}
