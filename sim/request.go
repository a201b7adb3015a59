package sim

import "github.com/replay-llm/replay/sim/prompt"

// RequestID is the index of a request in the order of arrivals, counted from 0. Ids are dense, so they can index
// slices.
type RequestID int32

// WorkerID names a worker of one pool. Ids count up from 0 and are never reused after a worker has left.
type WorkerID int32

// Request is one turn when it enters a cluster.
//
// A feed owns the requests that it returns. Other code writes only to Local and, at arrival, to OutputTokens and Cut.
type Request struct {
	ID           RequestID
	Class        int32 // index of the request's class in the workload; 0 if there are no classes
	InputTokens  int   // prompt length, > 0
	OutputTokens int   // requested answer length in tokens
	Cut          int   // requested answer tokens that do not fit in the engines' maximum sequence length
	Prompt       prompt.Prompt
	Session      int32 // index of the session in the workload
	Turn         int32 // index of the turn in the session
	Line         int32 // line of the trace file, 0 when there is none
	Priority     int32 // the lowest value is the most urgent; 0 if unset
	Arrived      Time  // the time at which the request becomes ready
	// Draws is the key of the request for random draws. Draws is the same in all replays of a workload, for any order
	// of arrivals. 0 means the ID.
	Draws uint64
	Local bool // a decode worker computes the prompt, although there are prefill workers
}

// DrawsOf returns the Draws of a turn of a session. A session of one turn has the draws of a request with the index
// of the session as ID.
func DrawsOf(session, turn int32) uint64 { return uint64(turn)<<32 + uint64(session) + 1 }

// DrawKey returns the key for random draws of r.
func (r *Request) DrawKey() uint64 {
	if r.Draws == 0 {
		return uint64(r.ID)
	}
	return r.Draws - 1
}
