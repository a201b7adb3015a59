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

// WorkerConfig configures a live worker.
type WorkerConfig struct {
	ID      sim.WorkerID
	Core    scheduler.Core
	Clock   *Clock
	Precise bool // poll the clock at the end of each sleep

	// Changed, if not nil, receives changes of the worker's cache, in the order of its passes, at the instant at
	// which they become visible. The changes are p.KV, and p.Events if the core captures events. p is valid during
	// the call. The call delays the pass, so it must not block.
	Changed func(p *scheduler.Pass)
	// Prepare, if not nil, is called with each request before the core gets it, on the goroutine of the core.
	Prepare func(q *sim.Request)
	// Admitted, if not nil, receives the requests that were admitted to the pass that has just begun, with the real
	// instant. The slice is valid during the call.
	Admitted func(at sim.Time, a []scheduler.Admission)
	// Output receives each pass that has ended, once, with the real instants of its begin and its end; every token of
	// it has the time of the end. p is valid during the call, on the goroutine that runs the core, between two passes.
	Output func(p *scheduler.Pass, planned Span)
	// Pacer, if not nil, is called before each pass.
	Pacer Pacer
	// Canceled, if not nil, is called with each request removed by Cancel. The pass of the call has no duration and
	// describes the engine without the request.
	Canceled func(id sim.RequestID, p *scheduler.Pass)
	// Detail requests details of passes.
	Detail bool
}

// Pacer keeps the passes of several workers in order.
type Pacer interface {
	// Await returns when all actions that must precede a pass at the given instant are done.
	Await(at sim.Time)
	// Begin is called when a pass has begun, with its planned end.
	Begin(end sim.Time)
	// Rest is called when the worker has no work and its inbox is empty. Rest must not block and must not call the
	// worker.
	Rest()
}

// Span is the planned begin and end of a pass. If the pass ended too late for the next pass to continue from its
// planned end, End is its real end.
type Span struct{ Start, End sim.Time }

// Worker is a scheduler core on a real clock, which waits for the duration of each pass. The method Run is the loop
// of a Worker. Requests may be submitted at any time.
type Worker struct {
	cfg   WorkerConfig
	timer *Timer

	mu      sync.Mutex
	inbox   []*sim.Request
	came    sim.Time // latest instant of requests in the inbox; farBack: none has an instant
	cancels []sim.RequestID
	wake    chan struct{} // of capacity 1; signals that the inbox is not empty

	pass    scheduler.Pass // pass of the core, in planned instants
	real    scheduler.Pass // the same pass in real instants
	ends    ends
	next    sim.Time // planned begin of the next pass; farBack: the current time
	planned sim.Time // planned end of the previous pass
	open    bool     // a pass has begun and has not ended

	due atomic.Uint64 // float64 bits of the planned end of the pass, or of the planned begin of the next; 0: idle

	overshoot, lengths sampler
	slipped            float64 // ms by which passes ended too late for the next pass to begin as planned
}

// farBack is earlier than every event.
const farBack = -farOff

// NewWorker returns an idle worker.
func NewWorker(cfg WorkerConfig) *Worker {
	w := &Worker{
		cfg: cfg, timer: newTimer(cfg.Clock, cfg.Precise), wake: make(chan struct{}, 1), came: farBack, next: farBack, planned: farBack,
	}
	if cfg.Detail {
		w.pass.Detail = new(scheduler.Detail)
	}
	return w
}

// Submit gives the worker a request for its next pass.
func (w *Worker) Submit(q *sim.Request) { w.SubmitAt(farBack, q) }

// SubmitAt gives the worker a request that was planned to arrive at an instant. If the worker is idle and the instant
// is not long ago, its next pass begins then.
func (w *Worker) SubmitAt(at sim.Time, q *sim.Request) {
	w.mu.Lock()
	w.inbox = append(w.inbox, q)
	w.came = max(w.came, at)
	w.mu.Unlock()
	w.wakeUp()
}

// Cancel removes a request before the next pass and frees its blocks.
func (w *Worker) Cancel(id sim.RequestID) {
	w.mu.Lock()
	w.cancels = append(w.cancels, id)
	w.mu.Unlock()
	w.wakeUp()
}

// Overdue returns the delay in ms of the end of the current pass, or of the begin of the next. Any goroutine may call
// Overdue.
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

// PanicError is the error of a core or a sink that panicked.
type PanicError struct {
	Worker sim.WorkerID
	Value  any
}

func (e *PanicError) Error() string { return fmt.Sprintf("worker %d: panic: %v", e.Worker, e.Value) }

// Run is the worker's loop. Run returns nil when ctx is done, even with work left. Run returns an error if the core
// stalls or a callback panics.
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

// findNext sets the begin of an idle worker's next pass, and reports whether the inbox has work.
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

// takeInbox processes the inbox.
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
		w.cfg.Core.ReportIdle(&w.pass)
		w.showChanges()
		if w.cfg.Canceled != nil {
			w.cfg.Canceled(id, &w.pass)
		}
	}
}

// chainable is the maximum delay in ms of a pass after which the next pass begins at its planned end. Without chains,
// the small delays of all passes would add up. After a longer delay, the worker continues from the current time.
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
		w.cfg.Core.ReportIdle(&w.pass)
		w.showChanges()
	}
	w.open = false
	w.handOutPass(begun)
	return nil
}

// showChanges reports the cache changes of the pass.
func (w *Worker) showChanges() {
	if w.cfg.Changed != nil && len(w.pass.KV)+len(w.pass.Events) > 0 {
		w.cfg.Changed(&w.pass)
	}
}

// handOutPass reports the pass.
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

// Close releases the worker's timer. Close must be called after Run has returned.
func (w *Worker) Close() { w.timer.Close() }

// ends is the planned and the real ends of the latest passes of a worker. ends converts spans between planned ends to
// spans between real ends.
type ends struct {
	planned, real []sim.Time // ascending
}

// keptEnds is the maximum number of passes in ends. If a request has no token during more passes, its next gap counts
// from a planned instant.
const keptEnds = 1 << 14

// realizePass sets real to the pass p in real time, from begun to ended. Spans since the previous pass are computed
// between the real ends of the passes.
func (e *ends) realizePass(p, real *scheduler.Pass, begun, ended sim.Time) {
	gaps := real.Gaps[:0]
	detail := real.Detail
	*real = *p
	real.Ends, real.Nanos = nil, nil // real times are not whole nanoseconds
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

// realEnd returns the real end of the pass with a planned end near planned.
func (e *ends) realEnd(planned sim.Time) sim.Time {
	const slack = 1e-6 // ms: rounding differences of float64 sums
	i := sort.Search(len(e.planned), func(i int) bool { return e.planned[i] >= planned-slack })
	if i < len(e.planned) && e.planned[i] <= planned+slack {
		return e.real[i]
	}
	return planned
}
