package sim

import "github.com/replay-llm/replay/sim/prompt"

// RequestID is a request's place in the order of arrivals, counted from 0.
// Ids are dense, so they index slices.
type RequestID int32

// WorkerID names a worker of one pool. Ids count up from 0 and are never
// used again after a worker has left.
type WorkerID int32

// Request is one turn as it enters a cluster.
//
// A feed owns the requests it hands out; no other code writes to them, but to Local and, when
// they arrive, to OutputTokens and Cut.
type Request struct {
	ID           RequestID
	Class        int32 // its place among the classes of the workload; 0 if there are none
	InputTokens  int   // prompt length, > 0
	OutputTokens int   // answer length asked for
	Cut          int   // further answer tokens asked for, which the engines' longest sequence does not leave room for
	Prompt       prompt.Prompt
	Session      int32 // index of the session in the workload
	Turn         int32 // index of the turn in its session
	Line         int32 // line of the trace file, 0 when there is none
	Priority     int32 // the least is the most urgent; 0 if nothing is said
	Arrived      Time  // when it becomes ready
	// Draws is the number of the request for random draws, the same in all replays of a workload, for any order of
	// arrivals. 0: its ID.
	Draws uint64
	Local bool // a decode worker computes its prompt, though there are prefill workers
}

// DrawsOf returns the Draws of a turn of a session. A session of one turn has the draws of
// a request with the session's place as ID in the workload.
func DrawsOf(session, turn int32) uint64 { return uint64(turn)<<32 + uint64(session) + 1 }

// DrawKey returns the number that draws for r depend on.
func (r *Request) DrawKey() uint64 {
	if r.Draws == 0 {
		return uint64(r.ID)
	}
	return r.Draws - 1
}
