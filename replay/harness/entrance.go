package harness

import (
	"github.com/replay-llm/replay/internal/heap"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/scheduler/silicon"
	"github.com/replay-llm/replay/sim"
)

// Entering is a request that enters the router of the entry pool. At is the instant at which the request has left the
// front end.
type Entering struct {
	loadgen.Arrival
	Sent    sim.Time   // instant at which the client sent the request
	Refused *Rejection // reason of a rejection when it was sent; nil: not rejected. Set after Record.

	recorded bool
}

// entrance is the front end of the servers (docs/rules/harness.md, Front end). Requests pass the front end between
// their clients and the router of the entry pool.
type entrance struct {
	time   silicon.FrontEnd
	inside heap.Heap[sim.Time, sim.RequestID, Entering]
	sent   []loadgen.Arrival
}

// FrontEndTime returns the time of a request in the front end.
func (r *Run) FrontEndTime(q *sim.Request) sim.Time { return r.entrance.time.Of(q.InputTokens) }

// Next returns the earliest instant, not before now, at which Take returns requests. Next reports false if this
// instant is unknown. inFlight is the number of requests behind the front end.
func (r *Run) Next(now sim.Time, inFlight int) (sim.Time, bool) {
	e := &r.entrance
	at, ok := r.Feed.Next(now, inFlight+len(e.inside))
	if len(e.inside) > 0 && (!ok || e.inside[0].Key < at) {
		return max(now, e.inside[0].Key), true
	}
	return at, ok
}

// Take appends the requests that have left the front end by now, in order.
func (r *Run) Take(now sim.Time, inFlight int, dst []Entering) []Entering {
	e := &r.entrance
	if e.time.IsZero() {
		e.sent = r.Feed.Take(now, inFlight, e.sent[:0])
		for _, a := range e.sent {
			dst = append(dst, Entering{Arrival: a, Sent: a.At})
		}
		return dst
	}
	r.Send(now, inFlight)
	for r.Leaves(now) {
		dst = append(dst, e.inside.Pop().Value)
	}
	return dst
}

// Send moves the requests that are sent by now into the front end.
func (r *Run) Send(now sim.Time, inFlight int) {
	e := &r.entrance
	e.sent = r.Feed.Take(now, inFlight+len(e.inside), e.sent[:0])
	for _, a := range e.sent {
		x := Entering{Arrival: a, Sent: a.At}
		if x.Refused = r.refuse(a.Request); x.Refused == nil {
			x.At += r.FrontEndTime(a.Request)
			a.Request.Arrived = x.At
		}
		x.recorded = true
		r.Arrive(a.Request, x.Sent)
		e.inside.Push(x.At, a.Request.ID, x)
	}
}

// Leaves reports whether a request leaves the front end by now. Without a front end, the result is always true.
func (r *Run) Leaves(now sim.Time) bool {
	e := &r.entrance
	return e.time.IsZero() || len(e.inside) > 0 && e.inside[0].Key <= now
}

// Done reports whether no request is left to arrive, in the feed or the front end.
func (r *Run) Done() bool { return len(r.entrance.inside) == 0 && r.Feed.Done() }

// Record opens the record of a request that has none.
func (r *Run) Record(x *Entering) {
	if x.recorded {
		return
	}
	x.recorded = true
	x.Refused = r.refuse(x.Request)
	r.Arrive(x.Request, x.Sent)
}

// refuse limits the answer of a request to the maximum sequence length. refuse returns the reason if the request is
// rejected, otherwise nil.
func (r *Run) refuse(q *sim.Request) *Rejection {
	if refused := r.FitLength(q); refused != nil || !r.Use.FitUncached {
		return refused
	}
	reason := engines.Fits(r.Stages, q.InputTokens, q.OutputTokens)
	if reason == nil {
		return nil
	}
	return &Rejection{Request: q.ID, Place: r.Place(q), Reason: unfit, Err: reason}
}

// unfit is the reason for a request that does not fit on an idle engine.
const unfit = "unfit"
