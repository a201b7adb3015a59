// Package router decides which worker serves a request.
//
// RoundRobin takes the workers in turn. KV weighs, for each worker, how much of
// a prompt is cached there against the work it already has, and holds requests
// back while every worker is busy.
//
// Routers live in virtual time: they hold no clock, and the same calls make the
// same placements.
//
// Read router.go, roundrobin.go, kv.go, place.go, cost.go, queue.go; then what
// KV knows of caches, holdings.go, parts.go, match.go, scores.go, residency.go,
// index.go, treeindex.go, and of work, loads.go, tally.go, prefill.go;
// config.go, parse.go and check.go are the configuration. live.go and
// liveload.go are KV for requests that nobody knew before.
package router

import (
	"fmt"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Mode is a kind of router.
type Mode uint8

const (
	ModeRoundRobin Mode = iota // workers in turn
	ModeKV                     // by cache and load
)

func (m Mode) String() string { return [...]string{"round_robin", "kv_router"}[m] }

// Router says where requests go. Methods that place requests append the
// placements to dst, in order, and the caller carries them out at once, in that
// order. Instants are virtual and never go back.
type Router interface {
	// Route takes in a request that arrives now: it is placed, or held.
	Route(now sim.Time, q *sim.Request, dst []Placement) ([]Placement, error)
	// PrefillDone says that a placed request has its first token and more to
	// come. Further calls for the same request change nothing.
	PrefillDone(now sim.Time, id sim.RequestID, dst []Placement) ([]Placement, error)
	// Finished says that a placed request has left its worker. A request that is
	// not placed is ignored.
	Finished(now sim.Time, id sim.RequestID, dst []Placement) ([]Placement, error)
	// Observe takes in what pass p did to the cache of worker w, at the instant
	// at which it becomes visible.
	Observe(w sim.WorkerID, p *scheduler.Pass) error
	// AddWorker makes w a candidate. A change of the set of workers is complete
	// with one call of Drain after it.
	AddWorker(w sim.WorkerID) error
	// RemoveWorker makes w a candidate no longer; its requests and its cache stay
	// known.
	RemoveWorker(w sim.WorkerID) error
	// Drain places held requests after a change of workers, unless there are none.
	Drain(now sim.Time, dst []Placement) ([]Placement, error)
	// Queued is the number of requests held back.
	Queued() int
	// Waiting appends the requests held back, in the order in which they would
	// be placed.
	Waiting(dst []sim.RequestID) []sim.RequestID
}

// Placement is a routing decision.
type Placement struct {
	Request *sim.Request
	Worker  sim.WorkerID

	// The rest tells why; round robin leaves it at 0, and Second at None.

	Overlap    int32        // full blocks of the prompt cached on Worker, as seen at arrival
	Blocks     int32        // blocks of the prompt, the last one perhaps not full
	Cost       float64      // of Worker, in blocks
	Second     sim.WorkerID // the cheapest other worker, None if there is none
	SecondCost float64
}

// None is no worker.
const None sim.WorkerID = -1

// NoWorkersError says that a request had to be placed while no worker was
// registered.
type NoWorkersError struct{ Request sim.RequestID }

func (e *NoWorkersError) Error() string { return "no endpoints available to route work" }

// WorkerError says that a worker was added twice, or removed or observed
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

// RequestError says that a request was routed twice, or had its prefill done
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
