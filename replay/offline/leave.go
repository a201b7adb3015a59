package offline

import (
	"cmp"
	"slices"

	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// lives is the requests of each worker, if requests may leave their workers before their last token.
type lives struct {
	c       *cluster
	tracked bool
	rules   *engines.Faults // the outcome of requests that lose their worker
	seats   []seat          // by request
}

// seat is the position of a request.
type seat struct {
	worker *worker // nil: on no worker
	place  int     // index in worker.has
}

// seat records that a request is on worker w.
func (l *lives) seat(w *worker, id sim.RequestID) {
	for int(id) >= len(l.seats) {
		l.seats = append(l.seats, seat{})
	}
	l.seats[id] = seat{w, len(w.has)}
	w.has = append(w.has, id)
}

// unseat records that a request has left its worker.
func (l *lives) unseat(id sim.RequestID) {
	s := &l.seats[id]
	w, last := s.worker, len(s.worker.has)-1
	moved := w.has[last]
	w.has[s.place] = moved
	l.seats[moved].place = s.place
	w.has = w.has[:last]
	*s = seat{}
}

// workerOf returns the worker of a request, nil if it is on none.
func (l *lives) workerOf(id sim.RequestID) *worker {
	if int(id) >= len(l.seats) {
		return nil
	}
	return l.seats[id].worker
}

// leaver is a request that leaves its worker without its last token.
type leaver struct {
	id     sim.RequestID
	pool   *pool
	worker sim.WorkerID
	gained int      // tokens that it got on this worker
	last   sim.Time // time of the latest of these tokens
	then   sequel   // the next step after a cancellation
	// refused is the reason why its engine has aborted it; nil: not aborted.
	refused *harness.Rejection
}

// sequel continues with a request after its cancellation. sequel is a plain value, so that the cluster can be copied.
type sequel interface {
	takeLeaver(c *cluster, l leaver) error
}

// sortLeavers sorts leavers by id.
func sortLeavers(all []leaver) {
	stable.Sort(all, func(a, b leaver) int { return cmp.Compare(a.id, b.id) })
}

// throwOut ends requests that have lost their worker, or sends them back to the cluster, as configured. The routers
// already know that these requests have left. why is the cause.
func (l *lives) throwOut(all []leaver, why cause) error {
	var back []sim.RequestID
	for i := range all {
		if then := all[i].then; then != nil {
			if err := then.takeLeaver(l.c, all[i]); err != nil {
				return err
			}
			continue
		}
		again, err := l.throwOutOne(&all[i], why)
		if err != nil {
			return err
		}
		if again {
			back = append(back, all[i].id)
		}
	}
	for _, id := range back {
		if after := l.rules.After; after > 0 {
			l.c.transit++
			l.c.agenda.schedule(l.c.now+after, comeback(id))
		} else if err := l.c.enterFirst(l.c.Requests.Get(int(id))); err != nil {
			return err
		}
	}
	return nil
}

// throwOutOne ends a request, or prepares its return.
func (l *lives) throwOutOne(x *leaver, why cause) (again bool, err error) {
	fate, how, event := l.c.Collector.Fate(x.id), l.rules.OnLoss, why.event
	if why.drain != nil {
		how = why.drain.how
		defer func() { why.drain.count(l.c.Collector.Fate(x.id), fate, again) }()
	}
	switch {
	case l.c.clients.hasHungUp(x.id):
		return false, l.c.clients.endAttempt(x, collector.Lost, event)
	case (how == engines.LoseThem || fate.Retries+fate.Migrations >= l.rules.Limit) && l.c.clients.rules != nil:
		return false, l.c.clients.endAttempt(x, collector.Lost, event)
	case how == engines.LoseThem || fate.Retries+fate.Migrations >= l.rules.Limit:
		l.showLeft(x, collector.Lost, false)
		l.c.Collector.GiveUp(x.id, collector.Lost, x.gained, event)
		return false, l.c.finishRequest(x.id, l.c.now)
	case how == engines.MigrateThem && l.fitsWith(x.id, x.gained):
		l.showLeft(x, collector.Unfinished, true)
		l.c.Collector.Migrate(x.id, x.gained, x.last, event)
		l.remake(x.id, l.c.Collector.TokensOf(x.id, 0))
		return true, nil
	}
	l.showLeft(x, collector.Unfinished, false)
	l.c.Collector.Retry(x.id, x.gained, event)
	l.remake(x.id, 0)
	return true, nil
}

// showLeft shows the observer that a request leaves its worker.
func (l *lives) showLeft(x *leaver, how collector.Outcome, keeps bool) {
	if l.c.Observer != nil {
		l.c.Observer.Left(&harness.Departure{
			Request: x.id, Stage: x.pool.Role, Worker: x.worker, At: l.c.now, Outcome: how, Keeps: keeps, Gained: x.gained, Last: x.last,
		})
	}
}

// fitsWith reports whether a request fits on the engines if its gained tokens become a part of its prompt.
func (l *lives) fitsWith(id sim.RequestID, gained int) bool {
	r := l.c.Collector.Record(id)
	n := l.c.Collector.TokensOf(id, gained)
	return n == 0 || engines.Fits(l.c.Stages, int(r.InputTokens)+n, int(r.OutputTokens)-n) == nil
}

// remake replaces a request by one with tokens of its answer as a part of its prompt.
func (l *lives) remake(id sim.RequestID, tokens int) {
	r := l.c.Collector.Record(id)
	if old := l.c.Requests.Get(int(id)); old.InputTokens != int(r.InputTokens)+tokens {
		q := *old
		q.InputTokens, q.OutputTokens = int(r.InputTokens)+tokens, int(r.OutputTokens)-tokens
		l.c.Requests.Set(int(id), &q)
	}
}

// comeback is the return of a request to the cluster.
type comeback sim.RequestID

func (x comeback) happen(c *cluster) error {
	c.transit--
	if id := sim.RequestID(x); c.clients.hasHungUp(id) {
		return c.clients.endAttempt(&leaver{id: id, pool: c.pools[0], worker: collector.Nowhere}, collector.Lost, 0)
	}
	return c.enterFirst(c.Requests.Get(int(x)))
}

// enterCluster brings a request that has arrived to the first router.
func (c *cluster) enterCluster(q *sim.Request) error {
	if c.clients.rules != nil {
		return c.clients.sendRequest(q.ID, c.Collector.Record(q.ID).Arrival)
	}
	return c.enterFirst(q)
}

// enterPool brings a request to the router of a pool. If the pool has no active worker, the request waits in parked.
func (c *cluster) enterPool(p *pool, q *sim.Request) error {
	if p.serving == 0 && c.lives.tracked {
		p.parked = append(p.parked, q.ID)
		c.inFlight++
		return nil
	}
	return p.Enter(c.now, q)
}

// openPool admits waiting requests after a change of workers, starting with requests that the router holds.
func (c *cluster) openPool(p *pool) error {
	if err := p.Drain(c.now); err != nil {
		return err
	}
	for len(p.parked) > 0 && p.serving > 0 {
		id := p.parked[0]
		p.parked = p.parked[1:]
		c.inFlight--
		if err := p.Enter(c.now, c.Requests.Get(int(id))); err != nil {
			return err
		}
	}
	return nil
}

// isStranded reports whether only incidents are left to happen.
func (l *lives) isStranded() bool {
	restarts := func(p *pool) bool {
		return p.serving == 0 && p.auto != nil && len(p.parked)+p.Router.Queued() > 0
	}
	if len(l.c.fleet.scaling) > 0 || slices.ContainsFunc(l.c.pools, restarts) {
		return false
	}
	for i := range l.c.events {
		if l.c.events[i].kind != incidentDue {
			return false
		}
	}
	for _, p := range l.c.pools {
		for _, w := range p.workers {
			if len(w.has) > 0 {
				return false
			}
		}
	}
	_, ok := l.c.Next(l.c.now, l.c.countInFlight())
	return !ok && l.c.transit == 0 && l.c.clients.away == 0
}

// isAnyoneClosed reports whether a pool has no active worker.
func (l *lives) isAnyoneClosed() bool {
	return slices.ContainsFunc(l.c.pools, func(p *pool) bool { return p.serving == 0 })
}

// loseStranded ends requests that wait for a worker that will never start. loseStranded reports whether there were
// any such requests.
func (l *lives) loseStranded() (found bool, err error) {
	for _, p := range l.c.pools {
		if !l.tracked || p.serving > 0 {
			continue
		}
		stranded := p.parked
		l.c.inFlight -= len(p.parked)
		for _, id := range p.Router.Waiting(nil) {
			if p.Router.Withdraw(id) {
				stranded = append(stranded, id)
			}
		}
		p.parked = nil
		for _, id := range stranded {
			x := leaver{id: id, pool: p, worker: collector.Nowhere}
			if err := l.c.handover.leaveWay(id); err != nil {
				return true, err
			}
			l.showLeft(&x, collector.Lost, false)
			l.c.Collector.GiveUp(id, collector.Lost, 0, 0)
			if err := l.c.finishRequest(id, l.c.now); err != nil {
				return true, err
			}
			found = true
		}
	}
	return found, nil
}

// callOff cancels a request at the end of the pass in progress, or at once if the worker is idle. A request that gets
// its last token in the pass in progress is not cancelled. After the cancellation, then continues with the request.
func (l *lives) callOff(id sim.RequestID, then sequel) error {
	w := l.workerOf(id)
	w.calledOff = append(w.calledOff, calledOff{id, then})
	if !w.busy {
		return l.cancelCalledOff(w)
	}
	if keep := w.countBegun(l.c.now, true); keep < w.pass.Count {
		l.c.trimRun(w, keep)
	}
	return nil
}

// calledOff is a request to be cancelled on its worker.
type calledOff struct {
	id   sim.RequestID
	then sequel
}

// cancelCalledOff cancels the requests in w.calledOff, after a pass of w.
func (l *lives) cancelCalledOff(w *worker) error {
	all := w.calledOff
	w.calledOff = nil
	for _, x := range all {
		if l.workerOf(x.id) != w {
			continue // the request has its last token
		}
		left := leaver{id: x.id, pool: w.pool, worker: w.id}
		left.gained, left.last = w.tokensOf(x.id)
		if err := l.cancelOn(w, x.id); err != nil {
			return err
		}
		if err := x.then.takeLeaver(l.c, left); err != nil {
			return err
		}
	}
	return nil
}

// endAborted ends the requests that w's engine has aborted, or lets their clients retry them.
func (l *lives) endAborted(w *worker) error {
	for i := range w.pass.Aborted {
		a := &w.pass.Aborted[i]
		if l.tracked {
			l.unseat(a.Request)
		}
		l.c.inFlight--
		if err := w.pool.Leave(l.c.now, a.Request); err != nil {
			return err
		}
		x := leaver{id: a.Request, pool: w.pool, worker: w.id, gained: a.Tokens, last: a.Last, refused: l.c.NewAbort(a)}
		if l.c.clients.rules != nil {
			if err := l.c.clients.endAttempt(&x, collector.Rejected, 0); err != nil {
				return err
			}
			continue
		}
		l.showLeft(&x, collector.Rejected, false)
		l.c.Reject(x.refused)
		if err := l.c.finishRequest(a.Request, l.c.now); err != nil {
			return err
		}
	}
	return nil
}

// cancelOn cancels a request on the core of w and reports it to the router. cancelOn must be called between two
// passes.
func (l *lives) cancelOn(w *worker, id sim.RequestID) error {
	var p scheduler.Pass
	if w.core.Cancel(l.c.now-w.lag, id, &p) {
		p.Start, p.End = l.c.now, l.c.now // the clock of the core is behind
		if err := w.pool.Router.Observe(w.id, &p); err != nil {
			return err
		}
	}
	l.unseat(id)
	l.c.inFlight--
	if w.core.Load() == 0 {
		w.pool.ready.Remove(int(w.id))
	} else if !w.busy && !w.hung {
		w.pool.markIdle(w) // the next request may fit now
	}
	if err := w.pool.Leave(l.c.now, id); err != nil {
		return err
	}
	return l.c.handover.dropPull(id)
}
