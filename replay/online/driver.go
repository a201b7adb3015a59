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

// driver sends requests at their arrival, and KV caches to the decode stage. Only the driver reads the feed.
type driver struct {
	run   *run
	timer *Timer
	tasks sync.WaitGroup

	at       sim.Time // latest instant at which the driver has acted
	inFlight int      // requests that have arrived and have not ended, as known to the driver
	late     sampler
	batch    []loadgen.Arrival

	mu       sync.Mutex
	ended    []*entry                         // since the previous call of takeEnded
	handoffs heap.Heap[sim.Time, int, func()] // actions at the end of transfers, by time, then in order of creation
	made     int                              // number of handoffs so far
}

// entry is a request in flight.
type entry struct {
	q      *sim.Request
	came   sim.Time      // instant at which the request leaves the front end
	worker atomic.Int32  // latest worker of the request; -1: none
	done   chan struct{} // closed at the end of the request

	// over, at and err are written once, before done is closed, under driver.mu.
	over bool
	at   sim.Time // end of the request
	err  error    // nil: completed
}

// farOff is later than every event.
const farOff = sim.Time(math.MaxFloat64)

// sendArrivals sends requests until none is left or ctx is done.
func (d *driver) sendArrivals(ctx context.Context) error {
	defer context.AfterFunc(ctx, d.timer.Wake)()
	// A closed-loop feed does not report that it begins at 0.
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
		// A goroutine that ends a request records the end, then wakes the timer. The driver therefore misses no event
		// after it has read the feed.
		if h := d.run.cfg.hooks.looked; h != nil {
			h()
		}
		d.timer.Sleep(at)
	}
	return nil
}

// findNext returns the next instant at which the driver must act, and publishes it to the workers and the demux.
// findNext returns farOff if another event must happen first.
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

// actAt acts at an instant, unless an earlier act is required: requests end, KV caches arrive, requests arrive.
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

// scheduleHandoff schedules do at an instant on the driver's goroutine.
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

// carryHandoffs runs the handoffs that are due.
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

// takeEnded returns the requests that have ended by an instant, by end, then in order of arrival.
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

// startTask records the arrival of a request, then starts its task.
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
		at = now // the client has sent it now
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
		d.scheduleHandoff(e.came, func() { d.enterRouter(ctx, e) })
		return
	}
	d.enterRouter(ctx, e)
}

// enterRouter starts the task of a request that has left the front end. enterRouter returns after the request has been
// placed or queued, so that requests enter the router in order.
func (d *driver) enterRouter(ctx context.Context, e *entry) {
	placed, found := context.WithCancel(context.Background())
	d.tasks.Go(func() {
		defer found()
		d.abandonRequest(e, d.serveRequest(ctx, e, found))
	})
	<-placed.Done()
}

// serveRequest runs the target for a request. A panic becomes the error of the request.
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

// endRequest ends a request at an instant and reports whether it had not ended before. The caller must wake the
// driver.
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

// abandonRequest ends a request that no worker serves any more, unless it has already ended.
func (d *driver) abandonRequest(e *entry, err error) {
	if d.endRequest(e, d.run.clock.Now(), err) {
		d.timer.Wake()
	}
}

// noteEnd reports to the feed that a request has ended. If the request did not complete, its session also ends.
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
