package offline

import (
	"context"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/autoscale/planner"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// cluster is the event loop for any number of workers, in one pool or two (docs/rules/harness.md, The main loop,
// Prefill and decode pools).
type cluster struct {
	*run
	now    sim.Time
	events events
	pools  []*pool // the entry pool, then the decode pool if there is one

	inFlight int // requests on workers, until the end of their last pass
	arrivals []harness.Entering
	together []*sim.Request // arrivals that the router places in one decision

	instant instant // see instant.go
	transit int     // KV caches in transfer to a decode worker
	pending int     // events other than the end of a pass, transfers included
	window  harness.TrafficWindow
	flow    planner.Traffic // requests, prompts and tokens so far, for planners
	saveAt  sim.Time        // when caches are saved; 0: not before the end

	// The parts of the cluster. Each part has a separate duty and state, and refers to the cluster.
	agenda   agenda   // future incidents, see incidents.go
	faults   faults   // see faults.go
	lives    lives    // the requests of each worker, and their departures, see leave.go
	clients  clients  // see client.go
	handover handover // transfers from prefill to decode workers, see handover.go
	fleet    fleet    // the number of workers, see scale.go
}

func newCluster(r *run) (*cluster, error) {
	r.WaitPrompts()
	c := &cluster{run: r}
	c.agenda.c, c.faults.c, c.lives.c, c.clients.c, c.handover.c = c, c, c, c, c
	c.fleet = fleet{c: c, scaling: r.Scale, changes: r.Changes}
	c.instant.at = -1
	pools, err := r.NewPools(c)
	if err != nil {
		return nil, err
	}
	for i, h := range pools {
		p := &pool{Pool: h, metered: h.Metered(), batches: h.Batches(), first: uint64(i) * maxIDs, visible: h.Role != scheduler.Prefill, serving: h.Count}
		for range p.Count {
			if err := p.addWorker(); err != nil {
				return nil, err
			}
		}
		c.pools = append(c.pools, p)
	}
	if c.savesLater() {
		c.saveAt = c.Save.At
	}
	if err = c.warmWorkers(); err != nil {
		return nil, err
	}
	if err = c.handover.planHandover(); err != nil {
		return nil, err
	}
	c.openLives()
	if err = c.fleet.planAutoscalers(); err != nil {
		return nil, err
	}
	return c, c.faults.planFaults()
}

func (c *cluster) runEvents(ctx context.Context) error {
	until := never
	if c.cfg.Until > 0 {
		until = c.cfg.Until
	}
	if err := c.advanceTo(ctx, until); err != nil {
		return err
	}
	return c.endReplay()
}

// endReplay ends a replay at cfg.Until, or if no event is left.
func (c *cluster) endReplay() error {
	c.saveWorkers()
	if c.cfg.Until > 0 && !c.isIdle() {
		c.partial, c.ended = true, c.cfg.Until
		c.recordBegun(c.cfg.Until)
		return nil
	}
	return c.checkNothingLeft()
}

// recordBegun records the passes in progress and the progress of their requests, when the replay ends early.
func (c *cluster) recordBegun(now sim.Time) {
	for _, p := range c.pools {
		for _, w := range p.workers {
			if !p.visible || w.state == gone {
				continue
			}
			if w.busy {
				if keep := w.countBegun(now, true); keep < w.pass.Count {
					c.trimRun(w, keep)
				}
				c.Passed(p.Role, w.id, &w.pass)
			}
			c.recordProgress(w.core)
		}
	}
}

// advanceTo applies everything that is due at or before until.
func (c *cluster) advanceTo(ctx context.Context, until sim.Time) error {
	for {
		if err := c.settleInstant(); err != nil {
			return err
		}
		if c.fleet.hasPlans() {
			if err := c.fleet.carryOutPlans(); err != nil {
				return err
			}
		}
		next, ok := c.nextInstant()
		if !ok {
			if again, err := c.lives.loseStranded(); err != nil || !again {
				return err
			}
			continue
		}
		if next > until {
			return nil
		}
		if err := c.checkInterrupt(ctx); err != nil {
			return err
		}
		c.now = next
	}
}

// nextInstant returns the next instant at which something happens. nextInstant reports false if nothing is left to
// happen.
func (c *cluster) nextInstant() (sim.Time, bool) {
	next, ok := c.Next(c.now, c.countForFeed())
	if len(c.events) > 0 && (!ok || c.events[0].at < next) && !(c.lives.tracked && c.agenda.isOver()) {
		next, ok = c.events[0].at, true
	}
	if !c.fleet.hasPlans() {
		return next, ok
	}
	if over := c.lives.tracked && c.isIdle(); len(c.fleet.scaling) > 0 && !over && (ok && c.fleet.scaling[0].At < next || !ok && c.lives.tracked) {
		next, ok = c.fleet.scaling[0].At, true
	}
	if len(c.fleet.changes) > 0 && ok && c.fleet.changes[0].At < next {
		next = c.fleet.changes[0].At
	}
	if c.saveAt > 0 && ok && c.saveAt < next {
		next = c.saveAt
	}
	return next, ok
}

// isIdle reports whether every request has ended.
func (c *cluster) isIdle() bool { return c.Done() && c.countInFlight() == 0 && c.transit == 0 }

// countInFlight returns the number of requests that count in closed loop: requests on workers or held by a router. A
// request with its KV cache in transfer to a decode worker does not count.
func (c *cluster) countInFlight() int {
	n := c.inFlight
	for _, p := range c.pools {
		n += p.Router.Queued()
	}
	return n
}

// countForFeed returns countInFlight in closed loop, 0 in trace mode.
func (c *cluster) countForFeed() int {
	if c.cfg.Admission.Mode != loadgen.Concurrency {
		return 0
	}
	return c.countInFlight()
}

// settleInstant applies everything that happens at the current instant, in the order of docs/rules/harness.md, until
// nothing changes.
func (c *cluster) settleInstant() error {
	if c.instant.at == c.now {
		c.instant.irregular = true
	} else {
		c.instant = instant{at: c.now}
		c.cutAtBoundaries()
	}
	return c.settleRounds(false)
}

// settleRounds applies rounds until a round changes nothing. changed reports that the caller has already applied the
// first round.
func (c *cluster) settleRounds(changed bool) (err error) {
	for {
		if !changed {
			if changed, err = c.settleRound(); err != nil || !changed {
				return err
			}
		}
		if !c.instant.irregular && !c.isAnyDue() {
			return nil // the passes that have started end later
		}
		c.instant.irregular, changed = true, false
	}
}

// settleRound applies one round of everything that can happen at the current instant.
func (c *cluster) settleRound() (changed bool, err error) {
	for _, kind := range [...]kind{passEnds, workerReady, handoffDone} {
		did, err := c.applyEvents(kind)
		if err != nil {
			return true, err
		}
		changed = changed || did
	}
	if c.lives.tracked {
		did, err := c.applyEvents(incidentDue)
		if err != nil {
			return true, err
		}
		changed = changed || did
	}
	admitted, err := c.handover.admitTransfers()
	if err != nil {
		return true, err
	}
	arrived, err := c.takeArrivals()
	if err != nil {
		return true, err
	}
	started, err := c.startPasses()
	return changed || admitted || arrived || started, err
}

// applyEvents applies the events of kind k that are due, up to the first event of another kind.
func (c *cluster) applyEvents(k kind) (changed bool, err error) {
	for c.isDue(k) {
		e := c.events.pop()
		did := true
		switch k {
		case passEnds:
			err = c.endPass(e.worker)
		case workerReady:
			did, err = c.fleet.makeReady(e.worker)
		case handoffDone:
			c.pending--
			if c.handover.PD != nil {
				did, err = c.handover.continueTransfer(e.request)
				break
			}
			c.transit--
			err = c.enterDecode(e.request) // the KV cache has arrived
		case incidentDue:
			c.pending--
			err = c.agenda.fireIncident(int(e.request))
		}
		if err != nil {
			return true, err
		}
		changed = changed || did
	}
	return changed, nil
}

// isDue reports whether the earliest event is of the given kind and due.
func (c *cluster) isDue(k kind) bool { return c.isAnyDue() && c.events[0].kind == k }

func (c *cluster) isAnyDue() bool { return len(c.events) > 0 && c.events[0].at == c.now }

// endPass applies the pass of w, which ends now.
func (c *cluster) endPass(w *worker) error {
	w.pool.markIdle(w)
	if c.lives.tracked && w.pool.auto != nil {
		w.reportToScaler()
	}
	if w.state == leaving {
		if err := c.lives.retireIfDone(w); err != nil {
			return err
		}
	}
	if err := c.applyPass(w); err != nil {
		return err
	}
	w.releaseFreed()
	if c.lives.tracked && len(w.calledOff) > 0 {
		if err := c.lives.cancelCalledOff(w); err != nil {
			return err
		}
	}
	if !w.pool.metered {
		return nil
	}
	return w.pool.Measure(c.now, w.id, &w.pass)
}

// takeArrivals admits the requests that arrive now.
func (c *cluster) takeArrivals() (changed bool, err error) {
	if c.Feed.WantsSweep() {
		c.Feed.ForgetPrompts(c.markPrompts)
	}
	for again := true; again; {
		again = false
		c.arrivals = c.Take(c.now, c.countForFeed(), c.arrivals[:0])
		if p := c.pools[0]; p.batches && len(c.arrivals) > 1 && p.serving > 0 {
			changed = true
			if again, err = c.admitTogether(p); err != nil {
				return true, err
			}
			continue
		}
		for i := range c.arrivals {
			a := &c.arrivals[i]
			changed = true
			ok, err := c.noteArrival(a)
			if err != nil {
				return true, err
			}
			if !ok {
				again = true // the rejected request does not count, another may arrive
				continue
			}
			c.pools[0].prompts += a.Request.InputTokens
			id := a.Request.ID // a shed request is removed from Requests
			if err := c.enterCluster(a.Request); err != nil {
				return true, err
			}
			again = again || c.Requests.Get(int(id)) == nil
		}
	}
	return changed, nil
}

// markPrompts calls need with all prompt nodes in caches. markPrompts includes nodes that a pass in progress has
// evicted, because the router learns of the eviction at the end of the pass.
func (c *cluster) markPrompts(need func(prompt.NodeID)) {
	for _, p := range c.pools {
		p.MarkPrompts(need)
		for _, w := range p.workers {
			if w.core == nil {
				continue
			}
			w.core.Nodes(need)
			for i := range w.pass.KV {
				need(w.pass.KV[i].Node)
			}
		}
	}
}

// startPasses starts a pass on every worker that is ready, in the order of the pools and ids.
func (c *cluster) startPasses() (changed bool, err error) {
	for {
		w := c.nextReady()
		if w == nil {
			return changed, nil
		}
		changed = true
		if err := c.startPass(w); err != nil {
			return true, err
		}
	}
}

func (c *cluster) nextReady() *worker {
	for _, p := range c.pools {
		if i := p.ready.Min(); i >= 0 {
			return p.workers[i]
		}
	}
	return nil
}

// startPass runs a pass on w. A pass that takes no time ends at once.
func (c *cluster) startPass(w *worker) error {
	until := never
	if c.cfg.steps || w.pool.metered || len(w.asking) > 0 || c.lives.tracked && w.isSingle() {
		until = c.now // one pass at a time
	}
	if err := c.stepWorker(w, until); err != nil {
		return err
	}
	p := &w.pass
	if p.Blocked {
		return nil
	}
	if p.End == c.now || len(p.Aborted) > 0 {
		c.turnIrregular(w)
	}
	if p.End == c.now {
		return c.endPass(w)
	}
	w.busy, w.began = true, c.passOrder(w)
	c.events.push(event{at: p.End, order: w.endOrder(), kind: passEnds, worker: w})
	return nil
}

// stepWorker lets the core of w run a pass, or a run of passes up to until. stepWorker shows the router the effects
// that are visible from the start of the pass.
func (c *cluster) stepWorker(w *worker, until sim.Time) error {
	w.pool.ready.Remove(int(w.id))
	if w.pass.Detail == nil && (c.Observer != nil || w.pool.metered || w.pool.auto != nil) {
		w.pass.Detail = new(scheduler.Detail)
	}
	if c.lives.tracked {
		if err := w.stepWarped(c.now, until); err != nil {
			return c.Failed(w.id, c.now, err)
		}
	} else if err := w.core.Step(c.now, until, &w.pass); err != nil {
		return c.Failed(w.id, c.now, err)
	}
	if len(w.pass.Pulls) > 0 {
		if err := c.handover.startPulls(w); err != nil {
			return err
		}
	}
	w.pool.keepSnapshot(w, c.cfg.steps)
	if len(w.pass.Aborted) > 0 {
		if err := c.lives.endAborted(w); err != nil {
			return err
		}
	}
	if !w.pool.visible {
		c.Collector.Admit(w.pass.Start, w.pass.Admitted)
	}
	if w.pass.KVAtEnd {
		return nil
	}
	return c.showRouter(w)
}

// showRouter shows the router the cache changes of a pass of w.
func (c *cluster) showRouter(w *worker) error {
	if len(w.pass.KV) == 0 && len(w.pass.Events) == 0 {
		return nil
	}
	return w.pool.Router.Observe(w.id, &w.pass)
}
