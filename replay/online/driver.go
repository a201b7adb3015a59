package online

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/replay-llm/replay/internal/heap"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/sim"
)

// driver lets requests arrive, and KV caches reach the decode stage. It alone looks
// at the feed.
type driver struct {
	run   *run
	timer *Timer
	tasks sync.WaitGroup

	inFlight int // requests that have arrived and not ended, as the driver knows
	late     sampler
	batch    []loadgen.Arrival

	mu       sync.Mutex
	ended    []*entry                         // since the driver last looked
	handoffs heap.Heap[sim.Time, int, func()] // what is to happen when a KV cache arrives, in the order of making
	made     int                              // handoffs
}

// entry is a request under way.
type entry struct {
	q      *sim.Request
	worker atomic.Int32  // where it was placed last; -1: nowhere yet
	done   chan struct{} // closed when it has ended

	// Written once, before done is closed, under driver.mu.
	over  bool
	at    sim.Time
	err   error    // nil: it completed
	falls *Barrier // waits until what this one released is placed
}

// farOff is later than anything that happens.
const farOff = sim.Time(math.MaxFloat64)

// letArrive lets requests arrive until none is left or ctx is done.
func (d *driver) letArrive(ctx context.Context) error {
	defer context.AfterFunc(ctx, d.timer.Wake)()
	for ctx.Err() == nil {
		ended := d.takeEnded()
		for _, e := range ended {
			if err := d.noteEnd(e); err != nil {
				return err
			}
		}
		next := d.carryHandoffs()
		now := d.run.clock.Now()
		d.batch = d.run.Feed.Take(now, d.inFlight, d.batch[:0])
		for _, a := range d.batch {
			d.startTask(ctx, a, now)
		}
		for _, e := range ended {
			e.falls.Done()
		}
		if len(d.batch)+len(ended) > 0 {
			continue
		}
		if d.inFlight == 0 && d.run.Feed.Done() {
			return nil
		}
		// Whoever ends a request wakes the timer after it has put it down, so nothing
		// that happens after the look at the feed is missed.
		if at, ok := d.run.Feed.Next(now, d.inFlight); ok {
			next = min(next, at)
		}
		if h := d.run.cfg.hooks.looked; h != nil {
			h()
		}
		d.timer.Sleep(next)
	}
	return nil
}

// scheduleHandoff lets do happen at an instant, on the driver's goroutine.
func (d *driver) scheduleHandoff(at sim.Time, do func()) {
	d.mu.Lock()
	d.made++
	d.handoffs.Push(at, d.made, do)
	first := d.handoffs[0].Tie == d.made
	d.mu.Unlock()
	if first {
		d.timer.Wake()
	}
}

// carryHandoffs carries the handoffs that are due, and returns when the next one is.
func (d *driver) carryHandoffs() (next sim.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.handoffs) > 0 {
		if d.handoffs[0].Key > d.run.clock.Now() {
			return d.handoffs[0].Key
		}
		do := d.handoffs.Pop().Value
		d.mu.Unlock()
		do()
		d.mu.Lock()
	}
	return farOff
}

func (d *driver) takeEnded() []*entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	ended := d.ended
	d.ended = nil
	return ended
}

// startTask lets a request arrive: its arrival is on record, and it can be found,
// before its task begins. It returns when the request has found a worker or
// waits for one, so that requests come before the router in order.
func (d *driver) startTask(ctx context.Context, a loadgen.Arrival, now sim.Time) {
	x := d.run
	e := &entry{q: a.Request, done: make(chan struct{})}
	e.worker.Store(-1)
	x.registerEntry(e)
	d.late.add(float64(now - a.At))
	x.rec.addNews(arrivals, func() { x.noteArrival(a.Request, a.At, now) })
	d.inFlight++
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

// endRequest ends a request, unless it has ended, and reports whether it did. The
// caller wakes the driver. A barrier that is not nil waits until the driver has
// placed what this one releases.
func (d *driver) endRequest(e *entry, at sim.Time, err error, falls *Barrier) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.over {
		return false
	}
	if falls != nil && !d.run.independent {
		falls.Add(1)
		e.falls = falls
	}
	e.over, e.at, e.err = true, at, err
	d.ended = append(d.ended, e)
	close(e.done)
	return true
}

// abandonRequest ends a request that nobody serves any more, unless it has ended.
func (d *driver) abandonRequest(e *entry, err error) {
	if d.endRequest(e, d.run.clock.Now(), err, nil) {
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
