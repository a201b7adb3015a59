package offline

import (
	"math"

	"github.com/replay-llm/replay/internal/invariant"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// life is the state of a worker under incidents, such as faults and drains.
//
// The clock of its core is lag behind the clock of the cluster, because the core does not see the time that a fault
// adds to a pass. The lag of an idle core has no effect.
type life struct {
	has       []sim.RequestID // requests on the worker, unordered
	calledOff []calledOff
	freed     []sim.RequestID // requests with KV blocks that it may free after the pass in progress, see hold.go
	before    []progress      // progress of requests before the pass in progress; only with speculative decoding

	lag   sim.Time
	slow  float64  // factor of the duration of passes; 0: none
	hung  bool     // idle and hanging, so that no pass begins
	until sim.Time // end of the latest hang

	died     bool // the death has not been noticed
	slowedBy int  // number of the fault that set slow

	returns bool     // the worker restarts after it has left
	back    sim.Time // time from the end of the worker to its restart
	then    incident // incident at the return or the final end of the worker
}

// progress is the progress of a request.
type progress struct {
	id     sim.RequestID
	tokens int
	last   sim.Time
}

// isWarped reports whether passes have a different duration or start in the cluster than in the core.
func (w *worker) isWarped() bool { return w.lag != 0 || w.slow != 0 }

// isSingle reports whether passes of w are taken one at a time.
func (w *worker) isSingle() bool { return w.isWarped() || w.pool.auto != nil && w.pool.auto.single }

// stepWarped lets the core take a pass, which starts by the clock of the core.
func (w *worker) stepWarped(now, until sim.Time) error {
	if w.pool.drafts {
		w.noteTokens()
	}
	err := w.core.Step(now-w.lag, until-w.lag, &w.pass)
	if err == nil && w.isWarped() {
		w.warpPass(now)
	}
	return err
}

// warpPass moves a pass from the clock of the core to now.
func (w *worker) warpPass(now sim.Time) {
	p := &w.pass
	length := p.End - p.Start
	if d := p.Detail; d != nil {
		part := (d.PrefillEnd - p.Start).Max0()
		if w.slow != 0 {
			part = sim.Time(float64(part) * w.slow)
		}
		d.PrefillEnd = now + part
	}
	p.Start, p.End = now, now+length
	// The clock of the cluster has larger values than the core's clock, so it is coarser. A nap may be too short to
	// advance the clock of the cluster.
	if length > 0 && p.End == now {
		p.End = sim.Time(math.Nextafter(float64(now), math.Inf(1)))
	}
	if w.slow != 0 && !p.Waits {
		w.stretchPass(sim.Time(float64(length) * (w.slow - 1)))
	}
}

// stretchPass extends the pass in progress, which must be a single pass.
func (w *worker) stretchPass(by sim.Time) {
	p := &w.pass
	if invariant.Enabled && p.Count != 1 {
		panic("a run of passes is stretched, must be a single one")
	}
	p.Waits = false
	p.End += by
	p.Gap += by
	w.lag += by
	for i := range p.Gaps {
		p.Gaps[i] += by
	}
	for i := range p.Nanos {
		p.Nanos[i] += int64(float64(by) * 1e6)
	}
}

// splitRun records the ended passes of the run in progress on w, so that only the pass in progress is left.
func (c *cluster) splitRun(w *worker) {
	if !w.busy {
		return
	}
	if keep := w.countBegun(c.now, true); keep < w.pass.Count {
		c.trimRun(w, keep)
	}
	p := &w.pass
	over := p.Count - 1
	if over == 0 {
		return
	}
	past := *p
	if len(p.Ends) > 0 {
		past.CutEnds(over)
		p.Gap = p.GapOf(over)
	} else {
		past.Count, past.End, past.Nanos = over, p.Begins(over), p.Nanos[:min(over, len(p.Nanos))]
	}
	c.Passed(w.pool.Role, w.id, &past)
	p.Start, p.Count, p.Ends, p.Second = past.End, 1, p.Ends[:0], p.Second[:0]
	p.Nanos = p.Nanos[min(over, len(p.Nanos)):]
	w.began = order{made: p.Start, rank: rankPass + w.rank()}
	c.events[w.at].order = w.endOrder()
	c.events.restoreAt(w.at)
}

// noteTokens records the progress of the requests on w before a pass.
func (w *worker) noteTokens() {
	w.before = w.before[:0]
	if w.core != nil {
		w.core.Progress(func(id sim.RequestID, tokens int, last sim.Time) {
			w.before = append(w.before, progress{id, tokens, last + w.lag})
		})
	}
}

// tokensOf returns the tokens that a request has gained on w, which must be idle, and the time of the latest token.
func (w *worker) tokensOf(id sim.RequestID) (tokens int, last sim.Time) {
	if w.core != nil && w.pool.visible {
		w.core.Progress(func(x sim.RequestID, n int, at sim.Time) {
			if x == id {
				tokens, last = n, at+w.lag
			}
		})
	}
	return tokens, last
}

// listProgress returns the progress of the requests on w, without the tokens of the pass in progress. The pass in
// progress must be a single pass, not a run.
func (w *worker) listProgress() []progress {
	if !w.pool.visible {
		return nil
	}
	if w.busy && w.pool.drafts {
		return w.before
	}
	start := w.pass.Start
	w.noteTokens()
	if !w.busy {
		return w.before
	}
	kept := w.before[:0]
	for _, x := range w.before {
		if x.last > start {
			x.tokens, x.last = x.tokens-1, start
		}
		if x.tokens > 0 {
			kept = append(kept, x)
		}
	}
	for _, m := range w.pass.Marks {
		if m.Last && m.Tokens > 1 {
			kept = append(kept, progress{m.Request, m.Tokens - 1, start})
		}
	}
	return kept
}

// stopWorker removes all requests from w and adds them to leavers. The worker gets an empty core.
func (l *lives) stopWorker(w *worker, leavers []leaver) ([]leaver, error) {
	l.c.splitRun(w)
	come := w.listProgress()
	if w.busy {
		l.c.events.removeAt(w.at)
	}
	from := len(leavers)
	for _, id := range w.has {
		leavers = append(leavers, leaver{id: id, pool: w.pool, worker: w.id})
	}
	for i := range leavers[from:] {
		x := &leavers[from+i]
		l.seats[x.id] = seat{}
		for _, p := range come {
			if p.id == x.id {
				x.gained, x.last = p.tokens, p.last
			}
		}
	}
	l.c.inFlight -= len(w.has)
	w.pool.ready.Remove(int(w.id))
	core, err := w.pool.Core(w.id)
	if err != nil {
		return nil, err
	}
	for _, x := range w.calledOff {
		for i := range leavers[from:] {
			if y := &leavers[from+i]; y.id == x.id {
				y.then = x.then
			}
		}
	}
	w.core, w.busy, w.life = core, false, life{then: w.then, returns: w.returns || w.state == active}
	w.pass.Reset(l.c.now)
	return leavers, nil
}

// killWorkers kills workers at once, with their caches. The workers restart after the time back; engines.Forever:
// never.
func (l *lives) killWorkers(all []*worker, back sim.Time, why cause) error {
	for _, w := range all {
		if err := l.closeWorker(w); err != nil {
			return err
		}
	}
	var leavers []leaver
	var unplaced []sim.RequestID // requests in prefill with a decode worker that has died
	for _, w := range all {
		var err error
		if leavers, err = l.stopWorker(w, leavers); err != nil {
			return err
		}
		leavers = l.takeTransfers(w, leavers)
		leavers, unplaced = l.c.handover.cutWays(w, leavers, unplaced)
		if w.returns = w.returns && back >= 0; w.returns {
			l.c.fleet.startWorker(w, back, back)
		} else {
			w.state, w.core = gone, nil
		}
		w.pool.noteSize(l.c.now)
	}
	sortLeavers(leavers)
	leavers, unplaced, err := l.c.handover.dropWays(leavers, unplaced)
	if err != nil {
		return err
	}
	for i := range leavers {
		if x := &leavers[i]; x.worker != collector.Nowhere {
			if err := x.pool.Leave(l.c.now, x.id); err != nil {
				return err
			}
		}
	}
	for _, id := range unplaced {
		if err := l.c.pools[1].Leave(l.c.now, id); err != nil {
			return err
		}
	}
	if err := l.throwOut(leavers, why); err != nil {
		return err
	}
	for _, w := range all {
		if w.state == gone {
			if err := l.endRestart(w); err != nil {
				return err
			}
		}
	}
	return l.c.fleet.replaceDead()
}

// closeWorker removes w and its cache from its router.
func (l *lives) closeWorker(w *worker) error {
	w.pool.Router.Forget(w.id)
	if w.state != active {
		return nil
	}
	w.pool.serving--
	return w.pool.Router.RemoveWorker(w.id)
}

// takeTransfers cancels the transfers from a prefill worker and adds their requests to leavers.
func (l *lives) takeTransfers(w *worker, leavers []leaver) []leaver {
	if w.pool.Role != scheduler.Prefill || l.c.handover.PD != nil {
		return leavers
	}
	for i := 0; i < len(l.c.events); {
		e := l.c.events[i]
		if e.kind != handoffDone || l.c.Collector.Record(e.request).PrefillWorker != w.id {
			i++
			continue
		}
		l.c.events.removeAt(i)
		l.c.transit--
		l.c.pending--
		leavers = append(leavers, leaver{id: e.request, pool: w.pool, worker: collector.Nowhere})
		i = 0 // removeAt has reordered the heap
	}
	return leavers
}

// hangWorker stops w for a while. The pass in progress ends that much later, and no pass begins before the end of the
// hang.
func (l *lives) hangWorker(w *worker, lasts sim.Time) {
	until := l.c.now + lasts
	if w.state == gone || w.state == starting || until <= w.until {
		return
	}
	from := max(l.c.now, w.until)
	w.until = until
	if w.busy {
		l.c.splitRun(w)
		w.stretchPass(until - from)
		e := &l.c.events[w.at]
		e.at, e.order = w.pass.End, w.endOrder()
		l.c.events.restoreAt(w.at)
		return
	}
	w.hung = true
	w.pool.ready.Remove(int(w.id))
	l.c.agenda.schedule(until, wakeUp{w})
}

// wakeUp ends the hang of an idle worker.
type wakeUp struct{ w *worker }

func (x wakeUp) happen(c *cluster) error {
	if w := x.w; w.hung && c.now >= w.until {
		w.hung = false
		if w.core != nil && !w.busy {
			w.pool.markIdle(w)
		}
	}
	return nil
}

// slowWorker multiplies the duration of later passes of w by a factor.
func (l *lives) slowWorker(w *worker, factor float64) {
	if w.slow = factor; factor == 1 {
		w.slow = 0
	}
	if w.busy {
		if keep := w.countBegun(l.c.now, true); keep < w.pass.Count {
			l.c.trimRun(w, keep)
		}
	}
}

// drainWorker lets w finish its requests without new requests, then restarts it. w is active again after the time
// back, and then happens after that.
func (l *lives) drainWorker(w *worker, back sim.Time, then incident) error {
	w.returns, w.back, w.then = true, back, then
	if err := l.c.fleet.dismissWorker(w); err != nil {
		return err
	}
	return l.restartIfGone(w)
}

// endRestart runs the incident that waits for the return of w, or for its final end.
func (l *lives) endRestart(w *worker) error {
	then := w.then
	if w.then = nil; then == nil {
		return nil
	}
	return then.happen(l.c)
}

// retireIfDone ends a leaving worker that has nothing left to do.
func (l *lives) retireIfDone(w *worker) error {
	if w.leaveIfDone(); w.state == gone {
		w.pool.noteSize(l.c.now)
	}
	return l.restartIfGone(w)
}

// restartIfGone restarts a worker that has been drained for a restart. A worker that was removed during its drain
// does not restart.
func (l *lives) restartIfGone(w *worker) error {
	if w.state != gone {
		return nil
	}
	if !w.returns {
		return l.endRestart(w)
	}
	core, err := w.pool.Core(w.id)
	if err != nil {
		return err
	}
	w.core = core
	l.c.fleet.startWorker(w, w.back, w.back)
	w.pool.noteSize(l.c.now)
	return nil
}
