// Package relay lets observers of a replay run on a separate goroutine, so that they do not delay the replay. The
// replay itself runs on one goroutine.
//
// Read relay.go, then batch.go (the buffered calls).
package relay

import (
	"sync/atomic"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Relay observes a replay and passes all calls to another observer, in the same order, a little later.
//
// Relay omits the prompts of requests, and the field KV of passes.
type Relay struct {
	to     harness.Observer
	sink   collector.Sink // for requests that are folded; nil: none are
	failed atomic.Pointer[error]
	fill   *batch
	full   chan *batch
	spare  chan *batch
	done   chan struct{}
	broken any // what the observer panicked with
	closed bool
}

// waiting is the maximum number of full batches that wait for the observer. A faster replay waits.
const waiting = 2

// batches is the maximum number of batches: the queue, one that is filled and one that is shown. All are reused,
// since used memory is faster than new memory.
const batches = waiting + 2

// New returns a relay to an observer. Another goroutine calls the observer until Close has returned.
func New(to harness.Observer) *Relay {
	r := &Relay{
		to: to, fill: newBatch(),
		full: make(chan *batch, waiting), spare: make(chan *batch, batches), done: make(chan struct{}),
	}
	go func() {
		defer close(r.done)
		r.showBatches()
	}()
	return r
}

// NewFolding is New for a replay with folded requests. The relay passes them to sink on the goroutine of the
// observer, in order with its other calls.
func NewFolding(to harness.Observer, sink collector.Sink) *Relay {
	r := New(to)
	r.sink = sink // before the first batch
	return r
}

// Folded passes on a folded request. Folded returns an error that the sink has returned for an earlier request.
func (r *Relay) Folded(f *collector.Folded) error {
	if err := r.Err(); err != nil {
		return err
	}
	r.fill.ends = append(r.fill.ends, *f)
	r.passOn(end)
	return nil
}

// Err returns the error of the sink. After Close the error covers all requests.
func (r *Relay) Err() error {
	if err := r.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Close waits until the observer has received all calls. If the observer has panicked, Close panics with the same
// value. Close may be called twice.
func (r *Relay) Close() {
	if r.closed {
		return
	}
	r.closed = true
	r.full <- r.fill
	close(r.full)
	<-r.done
	if r.broken != nil {
		panic(r.broken)
	}
}

// showBatches passes batches to the observer until the queue is closed.
func (r *Relay) showBatches() {
	for b := range r.full {
		if r.broken == nil {
			r.showGuarded(b)
		}
		b.reset()
		r.spare <- b // there is room for all
	}
}

// showGuarded passes a batch to the observer and stores the value of a panic.
func (r *Relay) showGuarded(b *batch) {
	defer func() {
		if broken := recover(); broken != nil {
			r.broken = broken
		}
	}()
	sink := r.sink
	if r.failed.Load() != nil {
		sink = nothing{}
	}
	if err := b.showAll(r.to, sink); err != nil {
		r.failed.Store(&err)
	}
}

// nothing is a sink that drops everything.
type nothing struct{}

func (nothing) Folded(*collector.Folded) error { return nil }

// passOn adds a call of this kind, and sends the batch if it is full.
func (r *Relay) passOn(k kind) {
	r.fill.order = append(r.fill.order, k)
	if len(r.fill.order) < callsPerBatch {
		return
	}
	r.full <- r.fill
	select {
	case r.fill = <-r.spare:
	default:
		r.fill = newBatch()
	}
}

// Arrived passes on an arrival.
func (r *Relay) Arrived(q *sim.Request, at sim.Time) {
	r.fill.arrivals = append(r.fill.arrivals, keepRequest(q, at))
	r.passOn(arrival)
}

// Routed passes on a routing decision.
func (r *Relay) Routed(stage scheduler.Role, at sim.Time, p *router.Placement) {
	r.fill.placements = append(r.fill.placements, placed{*p, keepRequest(p.Request, at), stage})
	r.passOn(placement)
}

// Handoff passes on the transfer of a KV cache.
func (r *Relay) Handoff(id sim.RequestID, from, to sim.Time) {
	r.fill.handoffs = append(r.fill.handoffs, handoff{from, to, id})
	r.passOn(transfer)
}

// Left passes on a departure.
func (r *Relay) Left(d *harness.Departure) {
	r.fill.departures = append(r.fill.departures, *d)
	r.passOn(departure)
}

// Pass passes on a pass.
func (r *Relay) Pass(stage scheduler.Role, w sim.WorkerID, p *scheduler.Pass) {
	r.fill.keepPass(stage, w, p)
	r.passOn(step)
}
