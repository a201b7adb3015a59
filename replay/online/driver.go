package online

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/sim"
)

// driver lets requests arrive. It alone looks at the feed.
type driver struct {
	run   *run
	timer *Timer
	tasks sync.WaitGroup

	inFlight int // requests that have arrived and not ended, as the driver knows
	late     sampler
	batch    []loadgen.Arrival

	mu    sync.Mutex
	ended []*entry // since the driver last looked
}

// entry is a request under way.
type entry struct {
	q      *sim.Request
	worker atomic.Int32  // where it was placed last; -1: nowhere yet
	done   chan struct{} // closed when it has ended

	// Written once, before done is closed, under driver.mu.
	over      bool
	completed bool
	at        sim.Time
	err       error
	falls     *Barrier // waits until what this one released is placed
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
		d.awaitNext(now)
	}
	return nil
}

// awaitNext sleeps until a request is ready or one has ended. Whoever ends one wakes
// the timer after it has put it down, so nothing that happens after the look at
// the feed is missed.
func (d *driver) awaitNext(now sim.Time) {
	next, ok := d.run.Feed.Next(now, d.inFlight)
	if !ok {
		next = farOff
	}
	if h := d.run.cfg.hooks.looked; h != nil {
		h()
	}
	d.timer.Sleep(next)
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
	x.rec.addNews(func(n *news) { n.arrivals = append(n.arrivals, arrival{a.Request, a.At, now}) })
	d.inFlight++
	placed := make(chan struct{})
	d.tasks.Add(1)
	go d.runTask(ctx, e, sync.OnceFunc(func() { close(placed) }))
	<-placed
}

// runTask is one request's.
func (d *driver) runTask(ctx context.Context, e *entry, placed func()) {
	defer d.tasks.Done()
	defer placed()
	err := d.serveRequest(ctx, e, placed)
	d.endRequest(e, d.run.clock.Now(), err)
}

// taskPanic is a request's task that panicked.
type taskPanic struct {
	value any
	stack []byte
}

func (p *taskPanic) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// serveRequest has the target serve a request. A panic is that request's error.
func (d *driver) serveRequest(ctx context.Context, e *entry, placed func()) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &taskPanic{value, debug.Stack()}
		}
	}()
	if h := d.run.cfg.hooks.task; h != nil {
		h(e.q)
	}
	return d.run.target.Serve(ctx, e.q, placed)
}

// completeRequest ends a request with its last token. The caller wakes the driver. A
// barrier that is not nil waits until the driver has placed what this one
// releases.
func (d *driver) completeRequest(e *entry, at sim.Time, falls *Barrier) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.over {
		return
	}
	if falls != nil && !d.run.independent {
		falls.Add(1)
		e.falls = falls
	}
	e.over, e.completed, e.at = true, true, at
	d.ended = append(d.ended, e)
	close(e.done)
}

// endRequest ends a request whose task is over, unless it has ended.
func (d *driver) endRequest(e *entry, at sim.Time, err error) {
	d.mu.Lock()
	ends := !e.over
	if ends {
		e.over, e.completed, e.at, e.err = true, err == nil, at, err
		d.ended = append(d.ended, e)
		close(e.done)
	}
	d.mu.Unlock()
	if ends {
		d.wakeUp()
	}
}

// wakeUp wakes the driver.
func (d *driver) wakeUp() { d.timer.Wake() }

// noteEnd lets the feed know that a request has ended. One that did not complete
// takes its session with it.
func (d *driver) noteEnd(e *entry) error {
	d.inFlight--
	x := d.run
	if e.completed {
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
