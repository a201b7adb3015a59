// Package router decides which worker serves a request.
//
// A Policy chooses among the workers for one request. A Dispatcher does the
// rest: it keeps the workers, the requests held back, what every worker has to
// do and what it has cached, and asks its policy. The policies themselves are in
// package policy, each in a separate file.
//
// Dispatchers hold no clock: instants are given with each call, and the same
// calls make the same placements.
//
// Read policy.go, dispatcher.go, place.go, queue.go and admission.go, what is decided before a policy is asked; then what a
// dispatcher knows of caches, cells.go, holdings.go, scores.go, residency.go and index.go, of active blocks, loads.go, and of
// workers by load, ladder.go; hashed.go is both for prompts that are new. config.go, parse.go and check.go are the configuration
// of the KV policy.
package router

import (
	"fmt"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Policy chooses a worker for one request. It may keep a state, which
// changes with calls of Choose alone.
type Policy interface {
	// Needs returns what the dispatcher must keep for the policy; always the
	// same.
	Needs() Needs
	// Choose returns the worker that q goes to, one of c.Workers.
	Choose(q *sim.Request, c *Candidates) Choice
}

// Fallible is a Policy that may be unable to choose: then it chooses None.
type Fallible interface {
	Policy
	// Err returns why it could not choose, nil as long as it could.
	Err() error
}

// Batcher is a Policy that decides on requests of one instant together, before any of them is placed.
type Batcher interface {
	Policy
	// Add adds a request to the ones that Decide decides on, and that Choose is called with soon.
	Add(q *sim.Request, c *Candidates)
	Decide()
	// Clear forgets requests that have not been placed.
	Clear()
}

// Needs is the facts that a policy needs of its candidates. A dispatcher of a policy that needs nothing keeps nothing
// but the list of workers.
type Needs struct {
	Running bool // requests placed and not finished; kept whenever anything is
	Tokens  bool // prompt tokens still to compute
	Blocks  bool // blocks of the prompts of running requests
	Shared  bool // of those, blocks that running prompts have in common count once
	Overlap bool // blocks of a request's prompt that are cached
	Metrics bool // what workers report of themselves
	// Sparse lets Overlap and Active of the candidates stay empty where Candidates.Sparse returns them.
	Sparse bool
	// Believes reports that Choice.Cached, and not Overlap, is the part of a prompt that is not computed.
	Believes bool
	// Strict, of an Admission, lets a request wait while a more urgent one does.
	Strict bool
	// Gate holds requests back while the workers are saturated by the metrics; nil:
	// never. It wants Metrics, and no Hold.
	Gate *Gate
	// Hold holds requests back while every worker is busy; nil: never.
	Hold *Hold
}

// Hold is when requests are held back, and in which order they are let go.
type Hold struct {
	Tokens   float64   // a worker with more prompt tokens to compute is busy
	ByWorker []float64 // instead of Tokens, of the workers that it has
	Order    QueueOrder
}

// tokensOf returns the prompt tokens above which a worker is busy.
func (h *Hold) tokensOf(w sim.WorkerID) float64 {
	if int(w) < len(h.ByWorker) {
		return h.ByWorker[w]
	}
	return h.Tokens
}

// Candidates is what a policy may know of the workers. The columns are indexed by worker id and read-only. Facts that
// the policy does not need are 0, and there are no columns if it needs none.
type Candidates struct {
	Workers []sim.WorkerID // to choose from, ascending by name; at least one

	Running []int32 // requests placed on the worker and not finished
	Tokens  []int64 // prompt tokens they have still to compute
	Blocks  []int64 // blocks of their prompts
	Overlap []int32 // leading blocks of the request's prompt that the worker has cached
	Active  []int32 // leading blocks of the request's prompt that Blocks counts already

	Metrics []Metrics // as they were read last

	Queued int      // requests held back
	Now    sim.Time // the instant of the choice

	names  func(sim.WorkerID) uint64 // nil: ids are names
	ages   ages                      // of signals
	ladder *Ladder                   // nil: see Sparse
}

// Name returns the name of a worker, which it keeps wherever it is known.
func (c *Candidates) Name(w sim.WorkerID) uint64 {
	if c.names == nil {
		return uint64(w)
	}
	return c.names(w)
}

// Choice is the worker chosen, and why, for policies that compare costs.
type Choice struct {
	Worker     sim.WorkerID
	Second     sim.WorkerID // the next best worker; None if none was looked for, or there is none
	Cost       float64      // of Worker
	SecondCost float64
	Cached     int32 // leading blocks of the prompt that the policy takes for cached on Worker; see Needs.Believes
}

// Router is a Dispatcher, or its substitute in a test. Methods that place requests append the placements to dst, in
// order, and the caller carries them out at once, in that order. Instants never go back.
type Router interface {
	// Route takes in a request that arrives now: it is placed, or held.
	Route(now sim.Time, q *sim.Request, dst []Placement) ([]Placement, error)
	// PrefillDone notes that a placed request has its first token and more to
	// come. Further calls for the same request change nothing.
	PrefillDone(now sim.Time, id sim.RequestID, dst []Placement) ([]Placement, error)
	// Finished notes that a placed request has left its worker. A request that is
	// not placed is ignored.
	Finished(now sim.Time, id sim.RequestID, dst []Placement) ([]Placement, error)
	// ComesComputed notes that a placed request has no prompt to compute, since its KV cache
	// comes from elsewhere. It places no request.
	ComesComputed(id sim.RequestID)
	// Loads returns the known facts of all workers, valid until the next call.
	Loads() *Candidates
	// Observe takes in what pass p did to the cache of worker w, at the instant
	// at which it becomes visible.
	Observe(w sim.WorkerID, p *scheduler.Pass) error
	// AddWorker makes w a candidate. A change of the set of workers is complete
	// with one call of Drain after it.
	AddWorker(w sim.WorkerID) error
	// RemoveWorker makes w a candidate no longer; its requests and its cache stay
	// known.
	RemoveWorker(w sim.WorkerID) error
	// Forget takes the cache of w out of what is known.
	Forget(w sim.WorkerID)
	// Drain places held requests after a change of workers, unless there are none.
	Drain(now sim.Time, dst []Placement) ([]Placement, error)
	// Queued is the number of requests held back.
	Queued() int
	// Waiting appends the requests held back, in the order in which they would
	// be placed.
	Waiting(dst []sim.RequestID) []sim.RequestID
	// Withdraw takes out a request that is held back; it reports false when it is not.
	Withdraw(id sim.RequestID) bool
	// Release takes out all requests held back and returns them, in the order in which they would
	// be placed.
	Release() []sim.RequestID
	// Follow lets another policy choose from now on, of the policies that the router was made for, with an
	// Admission before it. Nothing may be held back.
	Follow(now sim.Time, p Policy, a Admission)
}

// Placement is a routing decision.
type Placement struct {
	Request *sim.Request
	Worker  sim.WorkerID

	// The rest explains the choice; it is 0, and Second None, under policies that
	// compare no costs.

	Overlap    int32        // full blocks of the prompt cached on Worker, as seen at arrival
	Believed   int32        // the blocks that are taken for cached: Overlap, or Choice.Cached under Needs.Believes
	Blocks     int32        // blocks of the prompt, the last one perhaps not full
	Cost       float64      // of Worker, in blocks
	Second     sim.WorkerID // the cheapest other worker, None if there is none
	SecondCost float64
}

// None is no worker.
const None sim.WorkerID = -1

// NoWorkersError reports that a request had to be placed while no worker was
// registered.
type NoWorkersError struct{ Request sim.RequestID }

func (e *NoWorkersError) Error() string { return "no endpoints available to route work" }

// WorkerError reports that a worker was added twice, or removed or observed
// without having been added.
type WorkerError struct {
	Worker sim.WorkerID
	Known  bool // it was added before
}

func (e *WorkerError) Error() string {
	if e.Known {
		return fmt.Sprintf("router worker %d already exists", e.Worker)
	}
	return fmt.Sprintf("router worker %d does not exist", e.Worker)
}

// ChoiceError reports a policy that chose what is no candidate.
type ChoiceError struct {
	Request sim.RequestID
	Worker  sim.WorkerID
}

func (e *ChoiceError) Error() string {
	return fmt.Sprintf("the router policy chose worker %d for request %d, must be one of its candidates", e.Worker, e.Request)
}

// RequestError reports that a request was routed twice, or had its prefill done
// without having been placed.
type RequestError struct {
	Request sim.RequestID
	Worker  sim.WorkerID // where it is placed; None if it is held or unknown
	Known   bool
}

func (e *RequestError) Error() string {
	switch {
	case !e.Known:
		return fmt.Sprintf("Request %d not found", e.Request)
	case e.Worker == None:
		return fmt.Sprintf("Request %d already exists (held in the queue)", e.Request)
	}
	return fmt.Sprintf("Request %d already exists (assigned to worker %d)", e.Request, e.Worker)
}
