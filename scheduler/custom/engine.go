// Package custom runs an engine written by the user: a type that decides, pass by pass, how many tokens of each
// request are computed and which requests are preempted. The core does all other work: KV blocks, the prefix cache,
// the records of requests, pass times, and reports to the router.
//
// Read engine.go and plan.go for the interface of an engine, and firstcome.go for an example. Then read core.go,
// pool.go and pass.go for the core.
package custom

import (
	"fmt"

	"github.com/replay-llm/replay/sim"
)

// Engine decides what the passes of one worker compute. Each worker has a separate engine, and engines must not share
// mutable state: the order of calls among engines is unspecified.
//
// An engine must be deterministic: it must not depend on a clock, a goroutine or the order of a map. Two replays of
// one trace differ if an engine is not deterministic.
type Engine interface {
	// Plan decides what the pass that starts now computes, by calling the methods of p. The plan p is valid until
	// Plan returns. Plan is called when a pass begins, if requests are on the worker. A plan without tokens requires
	// WaitUntil.
	Plan(p *Plan)
}

// Options describe the worker of an engine, and contain the arguments of the cluster's engines. The core enforces
// only Blocks.
type Options struct {
	Worker           sim.WorkerID
	Blocks           int    // KV blocks, at least 1
	BlockTokens      int    // tokens per KV block
	MaxSeqs          int    // maximum number of running requests; 0: no limit
	MaxBatchedTokens int    // maximum number of tokens per pass; 0: no limit
	ChunkedPrefill   bool   // prompts may be computed in several chunks
	PrefixCaching    bool   // common prefixes of prompts are reused from cached KV blocks
	Seed             uint64 // seed for random draws
}

// Request is the engine's view of a request on its worker. Request is read-only: the core has separate records, and a
// write to Request affects only the engine.
type Request struct {
	ID       sim.RequestID // index in the order of arrivals at the cluster
	Class    int32         // index of the request's class in the workload; 0 if there are no classes
	Priority int32         // the lowest value is the most urgent; 0 if unset
	Session  int32         // index of the session in the workload
	Turn     int32         // index of the turn in the session
	Arrived  sim.Time      // arrival at the cluster
	Input    int           // prompt tokens
	Output   int           // answer tokens; a real engine does not know this number in advance

	Generated int // answer tokens so far
	Computed  int // tokens of prompt and answer with KV cache; 0 while the request waits
	Blocks    int // KV blocks in use by this request; 0 while the request waits
	Preempted int // number of preemptions
}

// Left returns the number of tokens to compute before r gains its next token. The tokens are the remaining prompt, 1
// during decode, or all tokens of prompt and answer after a preemption. Some tokens of a waiting request may be
// cached, see Plan.Cached.
func (r *Request) Left() int { return r.Input + r.Generated - r.Computed }

// Decodes reports whether r runs and has only one token to compute before its next answer token.
func (r *Request) Decodes() bool { return r.Generated > 0 && r.Left() == 1 }

// PlanError reports an invalid plan of an engine.
type PlanError struct {
	Request sim.RequestID // -1: no specific request
	Reason  string
}

func (e *PlanError) Error() string {
	if e.Request < 0 {
		return "the plan of the engine: " + e.Reason
	}
	return fmt.Sprintf("the plan of the engine: request %d %s", e.Request, e.Reason)
}
