package online

import (
	"context"
	"fmt"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// WorkerConfig is what a live worker is made of.
type WorkerConfig struct {
	ID      sim.WorkerID
	Core    scheduler.Core
	Clock   *Clock
	Precise bool // spend the end of each sleep looking at the clock

	// Changed, when not nil, is told of changes of the worker's cache, in the order
	// of its passes, at the instant at which they become visible: p.KV, and p.Events
	// if the core was built to capture them. p is valid during the call, which must
	// not block, for the pass waits.
	Changed func(p *scheduler.Pass)
	// Prepare, when not nil, is called with each request before the core gets it,
	// on the goroutine that runs the core.
	Prepare func(q *sim.Request)
	// Admitted, when not nil, is called with those who were given a place by the pass that has
	// just begun, at a real instant. The slice is valid during the call.
	Admitted func(at sim.Time, a []scheduler.Admission)
	// Output is told of each pass that has ended, once, with the real instants
	// of its begin and its end; every token of it has the time of the end. p is
	// valid during the call. When the worker should not begin its next pass at
	// once, Output returns what to wait for.
	Output func(p *scheduler.Pass) *Barrier
	// Passed, when not nil, is called after Output with the core between two
	// passes.
	Passed func(core scheduler.Core)
	// Canceled, when not nil, is called with a request that was taken out by Cancel,
	// with a pass of no length that says what the engine is like without it.
	Canceled func(id sim.RequestID, p *scheduler.Pass)
	// Detail asks for details of passes.
	Detail bool
}

// Worker is a scheduler core on a real clock: it really waits as long as a pass
// takes. Run is its loop; requests are given to it at any time.
type Worker struct {
	cfg   WorkerConfig
	timer *Timer

	mu      sync.Mutex
	inbox   []*sim.Request
	cancels []sim.RequestID
	wake    chan struct{} // of capacity 1: the inbox has something

	pass    scheduler.Pass // as the core filled it, in planned instants
	real    scheduler.Pass // the same, in real ones
	ends    ends
	chained bool     // the planned end of the pass before is where the next begins
	planned sim.Time // end of the pass before
	open    bool     // a pass has begun and not ended

	overshoot, lengths sampler
	late               int // barriers that took too long
}

// NewWorker returns a worker that does nothing yet.
func NewWorker(cfg WorkerConfig) *Worker {
	w := &Worker{cfg: cfg, timer: NewTimer(cfg.Clock, cfg.Precise), wake: make(chan struct{}, 1)}
	if cfg.Detail {
		w.pass.Detail = new(scheduler.Detail)
	}
	return w
}

// Submit gives the worker a request, which its next pass sees.
func (w *Worker) Submit(q *sim.Request) {
	w.mu.Lock()
	w.inbox = append(w.inbox, q)
	w.mu.Unlock()
	w.wakeUp()
}

// Cancel takes a request out before its next pass, and frees its blocks. The
// core must be a scheduler.Canceler.
func (w *Worker) Cancel(id sim.RequestID) {
	w.mu.Lock()
	w.cancels = append(w.cancels, id)
	w.mu.Unlock()
	w.wakeUp()
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
		w.takeInbox()
		if w.cfg.Core.Load() == 0 {
			w.chained = false
			select {
			case <-w.wake:
			case <-ctx.Done():
			}
			continue
		}
		if err := w.stepCore(ctx); err != nil {
			return err
		}
	}
	return nil
}

// takeInbox takes in what has come since the pass before.
func (w *Worker) takeInbox() {
	w.mu.Lock()
	inbox, cancels := w.inbox, w.cancels
	w.inbox, w.cancels = nil, nil
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
	c, ok := w.cfg.Core.(scheduler.Canceler)
	if !ok {
		panic(fmt.Sprintf("cancel of request %d: a %T cannot cancel", id, w.cfg.Core))
	}
	if c.Cancel(w.cfg.Clock.Now(), id, &w.pass) {
		scheduler.TellIdle(w.cfg.Core, &w.pass)
		w.showChanges()
		if w.cfg.Canceled != nil {
			w.cfg.Canceled(id, &w.pass)
		}
	}
}

// chainable is how long ago the planned end of a pass may be for the next one to
// begin there. Without that the small delays of all passes would add up.
const chainable = sim.Time(5)

// stepCore runs one pass in real time.
func (w *Worker) stepCore(ctx context.Context) error {
	begun := w.cfg.Clock.Now()
	at := begun
	if w.chained && begun-w.planned < chainable {
		at = w.planned
	}
	if err := w.cfg.Core.Step(at, at, &w.pass); err != nil {
		return err
	}
	w.open = true
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
		scheduler.TellIdle(w.cfg.Core, &w.pass)
		w.showChanges()
	}
	w.open = false
	w.handOutPass(begun)
	w.chained, w.planned = true, w.pass.End
	return nil
}

// showChanges shows what the pass changed in the cache.
func (w *Worker) showChanges() {
	if w.cfg.Changed != nil && len(w.pass.KV)+len(w.pass.Events) > 0 {
		w.cfg.Changed(&w.pass)
	}
}

// handOutPass hands out the pass, and waits for what must come before the next.
func (w *Worker) handOutPass(begun sim.Time) {
	ended := w.cfg.Clock.Now()
	w.overshoot.add(float64(ended - w.pass.End))
	w.lengths.add(float64(w.pass.End - w.pass.Start))
	w.ends.realizePass(&w.pass, &w.real, begun, ended)
	barrier := w.cfg.Output(&w.real)
	if w.cfg.Passed != nil {
		w.cfg.Passed(w.cfg.Core)
	}
	if barrier != nil && !barrier.wait() {
		w.late++
	}
}

// Close frees the worker's timer, once Run has returned.
func (w *Worker) Close() { w.timer.Close() }

// Barrier lets a worker wait until what its pass released has found its place.
type Barrier struct {
	left atomic.Int32
	done chan struct{}
}

// NewBarrier is a barrier that falls after n calls of Done.
func NewBarrier(n int32) *Barrier {
	b := &Barrier{done: make(chan struct{})}
	b.left.Store(n)
	return b
}

// Add makes the barrier wait for n more calls of Done; it must not have fallen.
func (b *Barrier) Add(n int32) { b.left.Add(n) }

// Done takes away one of what the barrier waits for. A nil barrier ignores it.
func (b *Barrier) Done() {
	if b != nil && b.left.Add(-1) == 0 {
		close(b.done)
	}
}

// patience is how long a worker waits at a barrier.
const patience = 2 * time.Millisecond

// wait reports whether the barrier fell in time.
func (b *Barrier) wait() bool {
	select {
	case <-b.done:
		return true
	default:
	}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-b.done:
		return true
	case <-limit.C:
		return false
	}
}

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
