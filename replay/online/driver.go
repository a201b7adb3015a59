package online

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/replay-llm/replay/internal/heap"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/sim"
)

// driver lets requests arrive, and KV caches reach the decode stage. It alone reads the feed.
type driver struct {
	run   *run
	timer *Timer
	tasks sync.WaitGroup

	at       sim.Time // the latest instant at which it has acted
	inFlight int      // requests that have arrived and not ended, as the driver knows
	late     sampler
	batch    []loadgen.Arrival

	mu       sync.Mutex
	ended    []*entry                         // since the driver last looked
	handoffs heap.Heap[sim.Time, int, func()] // what is to happen when a KV cache arrives, in the order of making
	made     int                              // handoffs
}

// entry is a request in flight.
type entry struct {
	q      *sim.Request
	came   sim.Time      // the instant at which it leaves the front end
	worker atomic.Int32  // where it was placed last; -1: nowhere yet
	done   chan struct{} // closed when it has ended

	// Written once, before done is closed, under driver.mu.
	over bool
	at   sim.Time // the instant at which it ended
	err  error    // nil: it completed
}

// farOff is later than anything that happens.
const farOff = sim.Time(math.MaxFloat64)

// letArrive lets requests arrive until none is left or ctx is done.
func (d *driver) letArrive(ctx context.Context) error {
	defer context.AfterFunc(ctx, d.timer.Wake)()
	// A feed that only completions make room in does not report that it begins at 0.
	if err := d.actAt(ctx, 0); err != nil {
		return err
	}
	for ctx.Err() == nil {
		at := d.findNext()
		if at <= d.run.clock.Now() {
			if err := d.actAt(ctx, at); err != nil {
				return err
			}
			continue
		}
		if d.inFlight == 0 && d.run.Feed.Done() {
			d.run.instants.planArrivals(farOff)
			return nil
		}
		if d.inFlight == 0 && at == farOff {
			return fmt.Errorf("stuck at %v ms: no request is in flight or due, and the workload is not complete", float64(d.at))
		}
		// A goroutine that ends a request records the end, then wakes the timer: the driver misses no event after the read of the
		// feed.
		if h := d.run.cfg.hooks.looked; h != nil {
			h()
		}
		d.timer.Sleep(at)
	}
	return nil
}

// findNext returns the next instant at which there is work, and lets the workers and the demux know; farOff when
// something else must happen before.
func (d *driver) findNext() sim.Time {
	next := farOff
	if at, ok := d.run.Feed.Next(d.at, d.inFlight); ok {
		next = at
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.handoffs) > 0 {
		next = min(next, d.handoffs[0].Key)
	}
	for _, e := range d.ended {
		next = min(next, e.at)
	}
	next = max(next, d.at)
	d.run.instants.planArrivals(next)
	return next
}

// actAt does what there is to do at an instant, unless there is work before:
// requests end, KV caches arrive, requests arrive.
func (d *driver) actAt(ctx context.Context, at sim.Time) error {
	x := d.run
	if !x.unordered && !x.instants.awaitArrivals(at) {
		return nil
	}
	d.at = at
	ended := d.takeEnded(at)
	for _, e := range ended {
		if err := d.noteEnd(e); err != nil {
			return err
		}
	}
	d.carryHandoffs()
	d.batch = x.Feed.Take(at, d.inFlight, d.batch[:0])
	for _, a := range d.batch {
		d.startTask(ctx, a)
	}
	d.findNext()
	return nil
}

// scheduleHandoff lets do happen at an instant, on the driver's goroutine.
func (d *driver) scheduleHandoff(at sim.Time, do func()) {
	d.mu.Lock()
	d.made++
	d.handoffs.Push(at, d.made, do)
	first := d.handoffs[0].Tie == d.made
	d.run.instants.expectDriver(at)
	d.mu.Unlock()
	if first {
		d.timer.Wake()
	}
}

// carryHandoffs carries the handoffs that are due.
func (d *driver) carryHandoffs() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.handoffs) > 0 && d.handoffs[0].Key <= d.at {
		do := d.handoffs.Pop().Value
		d.mu.Unlock()
		do()
		d.mu.Lock()
	}
}

// takeEnded takes the requests that have ended by an instant, in the order in which they
// arrived where they ended at the same.
func (d *driver) takeEnded(by sim.Time) (ended []*entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = slices.DeleteFunc(d.ended, func(e *entry) bool {
		if e.at <= by {
			ended = append(ended, e)
		}
		return e.at <= by
	})
	slices.SortFunc(ended, func(a, b *entry) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.q.ID, b.q.ID)) })
	return ended
}

// startTask lets a request arrive: its arrival is on record, and it can be found,
// before its task begins.
func (d *driver) startTask(ctx context.Context, a loadgen.Arrival) {
	x := d.run
	now := x.clock.Now()
	e := &entry{q: a.Request, came: a.At + x.FrontEndTime(a.Request), done: make(chan struct{})}
	e.worker.Store(-1)
	x.registerEntry(e)
	d.late.add(float64(now - a.At))
	if h := x.cfg.hooks.came; h != nil {
		h(a.Request, a.At)
	}
	at := a.At
	if x.cfg.Admission.Mode == loadgen.Concurrency {
		at = now // that is when the client has sent it
	}
	if e.came > a.At {
		a.Request.Arrived = at + (e.came - a.At)
	}
	refused := x.FitLength(a.Request)
	x.rec.addNews(arrivals, func() { x.noteArrival(a.Request, at, now, refused) })
	d.inFlight++
	if refused != nil {
		d.endRequest(e, at, nil)
		return
	}
	if e.came > a.At {
		d.scheduleHandoff(e.came, func() { d.letIn(ctx, e) })
		return
	}
	d.letIn(ctx, e)
}

// letIn starts the task of a request that has left the front end. It returns when the request has found a worker or waits
// for one, so that requests come before the router in order.
func (d *driver) letIn(ctx context.Context, e *entry) {
	placed, found := context.WithCancel(context.Background())
	d.tasks.Go(func() {
		defer found()
		d.abandonRequest(e, d.serveRequest(ctx, e, found))
	})
	<-placed.Done()
}

// serveRequest has the target serve a request. A panic is that request's error.
func (d *driver) serveRequest(ctx context.Context, e *entry, placed func()) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("panic: %v", value)
		}
	}()
	if h := d.run.cfg.hooks.task; h != nil {
		h(e.q)
	}
	return d.run.target.Serve(ctx, e.q, placed)
}

// endRequest ends a request at an instant, unless it has ended, and reports whether it
// did. The caller wakes the driver.
func (d *driver) endRequest(e *entry, at sim.Time, err error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.over {
		return false
	}
	e.over, e.at, e.err = true, at, err
	d.ended = append(d.ended, e)
	d.run.instants.expectDriver(at)
	close(e.done)
	return true
}

// abandonRequest ends a request that no worker serves any more, unless it has ended.
func (d *driver) abandonRequest(e *entry, err error) {
	if d.endRequest(e, d.run.clock.Now(), err) {
		d.timer.Wake()
	}
}

// noteEnd lets the feed know that a request has ended. One that did not complete
// takes its session with it.
func (d *driver) noteEnd(e *entry) error {
	d.inFlight--
	x := d.run
	if e.err == nil {
		x.finished++
		if x.Progress != nil {
			x.Progress(x.finished)
		}
		return x.Feed.Finish(e.q.ID, e.at)
	}
	if errors.Is(e.err, context.Canceled) || errors.Is(e.err, context.DeadlineExceeded) {
		x.cancelled++
	} else {
		x.failed = append(x.failed, harness.Failure{Request: e.q.ID, Place: x.Place(e.q), Worker: sim.WorkerID(e.worker.Load()), Err: e.err})
	}
	return x.Feed.Abandon(e.q.ID)
}
