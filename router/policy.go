// Package router decides which worker serves a request.
//
// A Policy chooses a worker for one request. A Dispatcher keeps the workers, the held requests, and the load and the
// cached blocks of every worker. A Dispatcher calls its policy for each choice. The policies themselves are in
// package policy, each in a separate file.
//
// Dispatchers have no clock: instants are arguments of each call, and the same calls make the same placements.
//
// Read policy.go, dispatcher.go, place.go, queue.go and admission.go, which decides before a policy chooses. Then
// read the facts of a dispatcher: cells.go, holdings.go, scores.go, residency.go and index.go (caches), loads.go
// (active blocks), ladder.go (workers by load), and hashed.go (caches and active blocks of new prompts). config.go,
// parse.go and check.go are the configuration of the KV policy.
package router

import (
	"fmt"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Policy chooses a worker for one request. Policy may have state that changes only with calls of Choose.
type Policy interface {
	// Needs returns the facts that the dispatcher must keep for the policy. The result is constant.
	Needs() Needs
	// Choose returns the worker for q, one of c.Workers.
	Choose(q *sim.Request, c *Candidates) Choice
}

// Fallible is a Policy that may fail to choose. A failed policy chooses None.
type Fallible interface {
	Policy
	// Err returns the reason of the failure, nil if there was none.
	Err() error
}

// Batcher is a Policy that decides on requests of one instant together, before any of them is placed.
type Batcher interface {
	Policy
	// Add adds a request to the next joint decision. Choose is called with the request soon.
	Add(q *sim.Request, c *Candidates)
	Decide()
	// Clear removes requests that have not been placed.
	Clear()
}

// Needs is the facts that a policy needs of its candidates. If a policy needs no facts, its dispatcher keeps only the
// list of workers.
type Needs struct {
	Running bool // requests placed and not finished; kept if any fact is needed
	Tokens  bool // prompt tokens to compute
	Blocks  bool // blocks of the prompts of running requests
	Shared  bool // common blocks of running prompts count once in Blocks
	Overlap bool // cached blocks of a request's prompt
	Metrics bool // reports of the workers
	// Sparse allows Overlap and Active of the candidates to stay empty if Candidates.Sparse returns them.
	Sparse bool
	// Believes reports that Choice.Cached, and not Overlap, is the cached part of a prompt.
	Believes bool
	// Strict, of an Admission, holds a request while a more urgent request is held.
	Strict bool
	// Gate holds requests while the workers are saturated; nil: never. A gate that reads metrics requires Metrics.
	// Gate excludes Hold.
	Gate *Gate
	// Hold holds requests while every worker is busy; nil: never.
	Hold *Hold
}

// Hold is the condition under which requests are held, and their order.
type Hold struct {
	Tokens   float64   // a worker with more prompt tokens to compute is busy
	ByWorker []float64 // replaces Tokens for the workers in it
	Order    QueueOrder
}

// tokensOf returns the number of prompt tokens above which a worker is busy.
func (h *Hold) tokensOf(w sim.WorkerID) float64 {
	if int(w) < len(h.ByWorker) {
		return h.ByWorker[w]
	}
	return h.Tokens
}

// Candidates is the facts about workers that a policy may read. The columns are indexed by worker id and read-only.
// Facts that the policy does not need are 0. If the policy needs no facts, there are no columns.
type Candidates struct {
	Workers []sim.WorkerID // candidates, ascending by name; at least one

	Running []int32 // requests placed on the worker and not finished
	Tokens  []int64 // prompt tokens of the requests of each worker that are not computed yet
	Blocks  []int64 // blocks of the prompts of the requests of each worker
	Overlap []int32 // leading blocks of the request's prompt that the worker has cached
	Active  []int32 // leading blocks of the request's prompt that are already counted in Blocks

	Metrics []Metrics // at the latest read

	Queued int      // number of held requests
	Now    sim.Time // instant of the choice

	names  func(sim.WorkerID) uint64 // nil: ids are names
	ages   ages                      // of signals
	ladder *Ladder                   // nil: see Sparse
}

// Name returns the name of a worker, which is stable across routers.
func (c *Candidates) Name(w sim.WorkerID) uint64 {
	if c.names == nil {
		return uint64(w)
	}
	return c.names(w)
}

// Choice is the chosen worker, with its cost if the policy compares costs.
type Choice struct {
	Worker     sim.WorkerID
	Second     sim.WorkerID // the next best worker; None if there is none, or the policy does not determine it
	Cost       float64      // of Worker
	SecondCost float64
	Cached     int32 // leading blocks of the prompt that the policy assumes are cached on Worker; see Needs.Believes
}

// Router is a Dispatcher, or its substitute in a test. Methods that place requests append the placements to dst, in
// order. The caller must execute the placements at once, in that order. Instants must not decrease.
type Router interface {
	// Route places or holds a request that arrives now.
	Route(now sim.Time, q *sim.Request, dst []Placement) ([]Placement, error)
	// PrefillDone reports that a placed request has its first token and will get more. Further calls for the same
	// request have no effect.
	PrefillDone(now sim.Time, id sim.RequestID, dst []Placement) ([]Placement, error)
	// Finished reports that a placed request has left its worker. A request that is not placed is ignored.
	Finished(now sim.Time, id sim.RequestID, dst []Placement) ([]Placement, error)
	// ComesComputed reports that a placed request has no prompt to compute, because its KV cache comes from another
	// worker. ComesComputed places no request.
	ComesComputed(id sim.RequestID)
	// Loads returns the known facts of all workers. The result is valid until the next call.
	Loads() *Candidates
	// Observe applies the cache changes of pass p on worker w, at the instant at which they become visible.
	Observe(w sim.WorkerID, p *scheduler.Pass) error
	// AddWorker makes w a candidate. Drain must be called once after a change of the set of workers.
	AddWorker(w sim.WorkerID) error
	// RemoveWorker removes w from the candidates. The requests and the cache of w stay known.
	RemoveWorker(w sim.WorkerID) error
	// Forget removes the cache of w from the known facts.
	Forget(w sim.WorkerID)
	// Drain places held requests after a change of workers. Drain has no effect without workers.
	Drain(now sim.Time, dst []Placement) ([]Placement, error)
	// Queued returns the number of held requests.
	Queued() int
	// Waiting appends the held requests in the order in which they would be placed.
	Waiting(dst []sim.RequestID) []sim.RequestID
	// Withdraw removes a held request. Withdraw reports false if the request is not held.
	Withdraw(id sim.RequestID) bool
	// Release removes all held requests and returns them in the order in which they would be placed.
	Release() []sim.RequestID
	// Follow replaces the policy and the Admission. The router must have been made for the new policy. No request may
	// be held.
	Follow(now sim.Time, p Policy, a Admission)
}

// Placement is a routing decision.
type Placement struct {
	Request *sim.Request
	Worker  sim.WorkerID

	// The following fields explain the choice. Under policies that compare no costs, the fields are 0, and Second is
	// None.

	Overlap    int32        // full blocks of the prompt that are cached on Worker, as known at arrival
	Believed   int32        // blocks that are assumed to be cached: Overlap, or Choice.Cached under Needs.Believes
	Blocks     int32        // blocks of the prompt, including a partial last block
	Cost       float64      // of Worker, in blocks
	Second     sim.WorkerID // the cheapest other worker, None if there is none
	SecondCost float64
}

// None is the worker id for no worker.
const None sim.WorkerID = -1

// NoWorkersError reports that a request had to be placed while no worker was
// registered.
type NoWorkersError struct{ Request sim.RequestID }

func (e *NoWorkersError) Error() string { return "no endpoints available to route work" }

// WorkerError reports that a worker was added twice, or was removed or observed without having been added.
type WorkerError struct {
	Worker sim.WorkerID
	Known  bool // the worker was already added
}

func (e *WorkerError) Error() string {
	if e.Known {
		return fmt.Sprintf("router worker %d already exists", e.Worker)
	}
	return fmt.Sprintf("router worker %d does not exist", e.Worker)
}

// ChoiceError reports that a policy chose a worker that is not a candidate.
type ChoiceError struct {
	Request sim.RequestID
	Worker  sim.WorkerID
}

func (e *ChoiceError) Error() string {
	return fmt.Sprintf("the router policy chose worker %d for request %d, must be one of its candidates", e.Worker, e.Request)
}

// RequestError reports that a request was routed twice, or that its prefill was done without a placement.
type RequestError struct {
	Request sim.RequestID
	Worker  sim.WorkerID // of the placement; None if the request is held or unknown
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
