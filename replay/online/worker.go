package online

import (
	"context"
	"fmt"
	"math"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// WorkerConfig is what a live worker is made of.
type WorkerConfig struct {
	ID      sim.WorkerID
	Core    scheduler.Core
	Clock   *Clock
	Precise bool // spend the end of each sleep reading the clock

	// Changed, when not nil, receives changes of the worker's cache, in the order of its passes, at the instant at which they
	// become visible: p.KV, and p.Events if the core was built to capture them. p is valid during the call, which must not block,
	// for the pass waits.
	Changed func(p *scheduler.Pass)
	// Prepare, when not nil, is called with each request before the core gets it,
	// on the goroutine that runs the core.
	Prepare func(q *sim.Request)
	// Admitted, when not nil, receives the requests that got a place in the pass that has just begun, at a real instant. The
	// slice is valid during the call.
	Admitted func(at sim.Time, a []scheduler.Admission)
	// Output receives each pass that has ended, once, with the real instants of its begin and its end; every token of it has the
	// time of the end. p is valid during the call, on the goroutine that runs the core, between two passes.
	Output func(p *scheduler.Pass, planned Span)
	// Pacer, when not nil, is asked before each pass.
	Pacer Pacer
	// Canceled, when not nil, is called with a request that was taken out by Cancel,
	// with a pass of no length that describes the engine without it.
	Canceled func(id sim.RequestID, p *scheduler.Pass)
	// Detail asks for details of passes.
	Detail bool
}

// Pacer keeps the passes of several workers in order.
type Pacer interface {
	// Await returns when all has happened that comes before a pass that begins at an
	// instant.
	Await(at sim.Time)
	// Begin is called when a pass has begun that is planned to end at an instant.
	Begin(end sim.Time)
	// Rest is called when the worker has no work and was given nothing. It must
	// not block, and not call the worker.
	Rest()
}

// Span is when a pass was planned to begin and to end. Where it ended too late to continue
// from there, its end is when it really did.
type Span struct{ Start, End sim.Time }

// Worker is a scheduler core on a real clock: it really waits as long as a pass
// takes. Run is its loop; requests are given to it at any time.
type Worker struct {
	cfg   WorkerConfig
	timer *Timer

	mu      sync.Mutex
	inbox   []*sim.Request
	came    sim.Time // the latest instant of those in the inbox; farBack: no request has one
	cancels []sim.RequestID
	wake    chan struct{} // of capacity 1: the inbox has something

	pass    scheduler.Pass // as the core filled it, in planned instants
	real    scheduler.Pass // the same, in real ones
	ends    ends
	next    sim.Time // where the next pass begins, if the clock shows not much more; farBack: where the clock is
	planned sim.Time // end of the pass before
	open    bool     // a pass has begun and not ended

	due atomic.Uint64 // float64 bits of the instant at which the pass is to end, or the next one to begin; 0: idle

	overshoot, lengths sampler
	slipped            float64 // ms by which passes ended too late for the next to begin where they should have
}

// farBack is earlier than anything that happens.
const farBack = -farOff

// NewWorker returns a worker that does nothing yet.
func NewWorker(cfg WorkerConfig) *Worker {
	w := &Worker{
		cfg: cfg, timer: newTimer(cfg.Clock, cfg.Precise), wake: make(chan struct{}, 1), came: farBack, next: farBack, planned: farBack,
	}
	if cfg.Detail {
		w.pass.Detail = new(scheduler.Detail)
	}
	return w
}

// Submit gives the worker a request, which its next pass sees.
func (w *Worker) Submit(q *sim.Request) { w.SubmitAt(farBack, q) }

// SubmitAt gives the worker a request that was planned to come at an instant. If the worker is
// idle, and this is not long ago, its next pass begins then.
func (w *Worker) SubmitAt(at sim.Time, q *sim.Request) {
	w.mu.Lock()
	w.inbox = append(w.inbox, q)
	w.came = max(w.came, at)
	w.mu.Unlock()
	w.wakeUp()
}

// Cancel takes a request out before its next pass, and frees its blocks.
func (w *Worker) Cancel(id sim.RequestID) {
	w.mu.Lock()
	w.cancels = append(w.cancels, id)
	w.mu.Unlock()
	w.wakeUp()
}

// Overdue returns for how long, in ms, the worker is late with the end of its pass, or with the next one. Any goroutine may
// call it.
func (w *Worker) Overdue() sim.Time {
	due := w.due.Load()
	if due == 0 {
		return 0
	}
	return max(0, w.cfg.Clock.Now()-sim.Time(math.Float64frombits(due)))
}

func (w *Worker) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// PanicError is a core or a sink that panicked.
type PanicError struct {
	Worker sim.WorkerID
	Value  any
}

func (e *PanicError) Error() string { return fmt.Sprintf("worker %d: panic: %v", e.Worker, e.Value) }

// Run is the worker's loop. It returns nil once ctx is done, whatever is left
// to do, and an error when the core stalls or something panics.
func (w *Worker) Run(ctx context.Context) (err error) {
	stop := context.AfterFunc(ctx, w.timer.Wake)
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{w.cfg.ID, value}
		}
		stop()
	}()
	for ctx.Err() == nil {
		w.due.Store(math.Float64bits(float64(w.cfg.Clock.Now())))
		if w.next == farBack && !w.findNext() {
			w.due.Store(0)
			select {
			case <-w.wake:
			case <-ctx.Done():
			}
			continue
		}
		if w.cfg.Pacer != nil && w.next != farBack {
			w.cfg.Pacer.Await(w.next)
		}
		w.takeInbox()
		if w.cfg.Core.Load() == 0 {
			w.next = farBack
			continue
		}
		if err := w.stepCore(ctx); err != nil {
			return err
		}
	}
	return nil
}

// findNext finds where an idle worker's next pass begins, and reports whether there is
// anything to take in.
func (w *Worker) findNext() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.inbox)+len(w.cancels) == 0 {
		if w.cfg.Pacer != nil {
			w.cfg.Pacer.Rest()
		}
		return false
	}
	if w.next = w.came; w.next != farBack {
		w.next = max(w.next, w.planned)
	}
	return true
}

// takeInbox takes in what has come since the pass before.
func (w *Worker) takeInbox() {
	w.mu.Lock()
	inbox, cancels := w.inbox, w.cancels
	w.inbox, w.cancels, w.came = nil, nil, farBack
	w.mu.Unlock()
	for _, q := range inbox {
		if w.cfg.Prepare != nil {
			w.cfg.Prepare(q)
		}
		w.cfg.Core.Submit(q)
	}
	for _, id := range cancels {
		w.cancelRequest(id)
	}
}

func (w *Worker) cancelRequest(id sim.RequestID) {
	if w.cfg.Core.Cancel(w.cfg.Clock.Now(), id, &w.pass) {
		w.cfg.Core.TellIdle(&w.pass)
		w.showChanges()
		if w.cfg.Canceled != nil {
			w.cfg.Canceled(id, &w.pass)
		}
	}
}

// chainable is how long ago the planned end of a pass may be, in ms, for the next one to
// begin there. Without that the small delays of all passes would add up; after a
// longer one the worker continues from where the clock is.
const chainable = sim.Time(25)

// stepCore runs one pass in real time.
func (w *Worker) stepCore(ctx context.Context) error {
	begun := w.cfg.Clock.Now()
	at := begun
	if w.next != farBack {
		at = instantOf(w.next, begun)
	}
	if err := w.cfg.Core.Step(at, at, &w.pass); err != nil {
		return err
	}
	w.open = true
	w.due.Store(math.Float64bits(float64(w.pass.End)))
	if w.cfg.Pacer != nil {
		w.cfg.Pacer.Begin(w.pass.End)
	}
	if len(w.pass.Admitted) > 0 && w.cfg.Admitted != nil {
		w.cfg.Admitted(begun, w.pass.Admitted)
	}
	if !w.pass.KVAtEnd {
		w.showChanges()
	}
	for w.timer.Sleep(w.pass.End) && ctx.Err() == nil {
	}
	if ctx.Err() != nil {
		return nil
	}
	if w.pass.KVAtEnd {
		w.cfg.Core.TellIdle(&w.pass)
		w.showChanges()
	}
	w.open = false
	w.handOutPass(begun)
	return nil
}

// showChanges shows what the pass changed in the cache.
func (w *Worker) showChanges() {
	if w.cfg.Changed != nil && len(w.pass.KV)+len(w.pass.Events) > 0 {
		w.cfg.Changed(&w.pass)
	}
}

// handOutPass hands out the pass.
func (w *Worker) handOutPass(begun sim.Time) {
	ended := w.cfg.Clock.Now()
	w.planned = instantOf(w.pass.End, ended)
	w.next = w.planned
	w.slipped += float64(w.planned - w.pass.End)
	w.overshoot.add(float64(ended - w.pass.End))
	w.lengths.add(float64(w.pass.End - w.pass.Start))
	w.ends.realizePass(&w.pass, &w.real, begun, ended)
	w.cfg.Output(&w.real, Span{w.pass.Start, w.planned})
}

// Close frees the worker's timer, once Run has returned.
func (w *Worker) Close() { w.timer.Close() }

// ends are the latest passes of a worker: when they were to end and when they
// did. They turn spans between planned ends into spans between real ones.
type ends struct {
	planned, real []sim.Time // ascending
}

// keptEnds is the number of passes that are remembered at most; a request that
// was without a token for longer gets its gap in planned time.
const keptEnds = 1 << 14

// realizePass fills real with the pass p as it happened, from begun to ended. Spans
// since the pass before are taken between the instants at which tokens were
// handed out.
func (e *ends) realizePass(p, real *scheduler.Pass, begun, ended sim.Time) {
	gaps := real.Gaps[:0]
	detail := real.Detail
	*real = *p
	real.Ends, real.Nanos = nil, nil // nothing takes whole nanoseconds
	real.Start, real.End = begun, ended
	real.Gap = ended - begun
	if n := len(e.real); n > 0 {
		real.Gap = ended - e.real[n-1]
	}
	for _, gap := range p.Gaps {
		gaps = append(gaps, ended-e.realEnd(p.End-gap))
	}
	real.Gaps = gaps
	if real.Detail = nil; p.Detail != nil {
		if detail == nil {
			detail = new(scheduler.Detail)
		}
		*detail = *p.Detail
		detail.PrefillEnd = begun + (p.Detail.PrefillEnd - p.Start)
		real.Detail = detail
	}
	e.addEnd(p.End, ended)
}

func (e *ends) addEnd(planned, real sim.Time) {
	if len(e.real) == 2*keptEnds {
		e.planned = e.planned[:copy(e.planned, e.planned[keptEnds:])]
		e.real = e.real[:copy(e.real, e.real[keptEnds:])]
	}
	e.planned, e.real = append(e.planned, planned), append(e.real, real)
}

// realEnd is when the pass ended that was to end at about planned.
func (e *ends) realEnd(planned sim.Time) sim.Time {
	const slack = 1e-6 // ms: a difference of float64s, added again
	i := sort.Search(len(e.planned), func(i int) bool { return e.planned[i] >= planned-slack })
	if i < len(e.planned) && e.planned[i] <= planned+slack {
		return e.real[i]
	}
	return planned
}
