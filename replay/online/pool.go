package online

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// pool is the live workers of one stage, with their router.
type pool struct {
	run     *run
	workers []*Worker
	pacers  []*pacer // by worker
	caches  bool     // the router reads caches and may hold requests

	mu      sync.Mutex // protects the router
	instant sim.Time   // instant of the current placements
	*harness.Pool
}

func (x *run) newPool(h *harness.Pool) (*pool, error) {
	text, ok := x.Router.(*policy.Text)
	p := &pool{run: x, Pool: h, caches: x.FollowsCaches() || ok && text.Hold != nil}
	for i := range p.Count {
		core, err := p.LiveCore(sim.WorkerID(i))
		if err != nil {
			return nil, err
		}
		p.workers = append(p.workers, p.makeWorker(sim.WorkerID(i), core))
	}
	return p, nil
}

func (p *pool) makeWorker(id sim.WorkerID, core scheduler.Core) *Worker {
	x := p.run
	pacer := &pacer{x.instants, x.instants.addWorker()}
	p.pacers = append(p.pacers, pacer)
	c := WorkerConfig{
		ID: id, Core: core, Clock: x.clock, Precise: x.cfg.Precise, Detail: x.Observer != nil,
		Changed: func(pass *scheduler.Pass) {
			if p.caches && p.Role != scheduler.Decode {
				p.showRouter(id, pass)
			}
			if raw := x.cfg.Raw; raw != nil {
				raw(p.Role, id, pass)
			}
		},
		Admitted: x.rec.noteAdmissions,
		Output:   func(pass *scheduler.Pass, planned Span) { p.handOut(id, pass, planned) },
	}
	if !x.cfg.NoBarrier {
		c.Pacer = pacer
	}
	return NewWorker(c)
}

// pacer keeps one worker's passes in order with the actions of other parties.
type pacer struct {
	*instants
	worker int
}

func (p *pacer) Await(at sim.Time)  { p.awaitStart(p.worker, at) }
func (p *pacer) Begin(end sim.Time) { p.begin(p.worker, end) }
func (p *pacer) Rest()              { p.rest(p.worker) }

// handOut queues a pass for the demux.
func (p *pool) handOut(w sim.WorkerID, pass *scheduler.Pass, planned Span) {
	by := p.pacers[w].worker
	pass = copyPass(pass)
	p.run.rec.addItem(outputs, item{planned, by, func() {
		p.applyPass(w, pass, planned.End)
		p.run.instants.carry(by, planned.End)
		if endsRequest(pass) {
			p.run.driver.timer.Wake()
		}
	}})
	p.run.instants.handOut(by)
	if h := p.run.cfg.hooks.pass; h != nil {
		h(w)
	}
}

// endsRequest reports whether a request ended in the pass.
func endsRequest(p *scheduler.Pass) bool {
	return len(p.Aborted) > 0 || slices.ContainsFunc(p.Marks, func(m scheduler.Mark) bool { return m.Last })
}

// enterRequest routes a request at an instant. The request is placed on a worker or held.
func (p *pool) enterRequest(at sim.Time, q *sim.Request) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.instant = at
	return p.Enter(p.run.clock.Now(), q)
}

// showRouter shows the router the cache changes of a pass.
func (p *pool) showRouter(w sim.WorkerID, pass *scheduler.Pass) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.Router.Observe(w, pass); err != nil {
		p.run.warnf("router: worker %d: %v", w, err)
	}
}

// applyMark applies the effects of a first or last token. Only the demux may call applyMark.
func (p *pool) applyMark(m *scheduler.Mark, at sim.Time) {
	x := p.run
	p.mu.Lock()
	defer p.mu.Unlock()
	p.instant = at
	if err := p.Mark(x.clock.Now(), at, m); err != nil {
		x.driver.abandonRequest(x.entryOf(m.Request), err)
	}
}

// run implements harness.Carrier for its pools.
var _ harness.Carrier = (*run)(nil)

// Submit gives a placed request to its worker. The caller must hold the mu of the pool.
func (x *run) Submit(p *harness.Pool, now sim.Time, placed *router.Placement, q *sim.Request) error {
	to := *placed
	x.rec.addNews(placements, func() { x.Routed(p.Role, now, &to) })
	x.entryOf(q.ID).worker.Store(int32(placed.Worker))
	live := x.pools[p.Index]
	live.workers[placed.Worker].SubmitAt(live.instant, q)
	x.instants.expectStart(live.pacers[placed.Worker].worker, live.instant)
	return nil
}

// HandOver sends a request to the decode pool. The caller must hold the mu of p.
func (x *run) HandOver(p *harness.Pool, id sim.RequestID, at, delay sim.Time) error {
	e, next := x.entryOf(id), x.pools[p.Index+1]
	if delay <= 0 {
		return next.enterRequest(at, e.q)
	}
	x.driver.scheduleHandoff(at+delay, func() {
		if err := next.enterRequest(at+delay, e.q); err != nil {
			x.driver.abandonRequest(e, err)
		}
	})
	return nil
}

// Complete ends a request.
func (x *run) Complete(id sim.RequestID, at sim.Time) error {
	x.driver.endRequest(x.entryOf(id), at, nil)
	return nil
}

// TurnAway is never called, because no router sheds requests in real time.
func (x *run) TurnAway(id sim.RequestID, _ sim.Time) error {
	return x.Refused(id, errors.New("it is shed, and in real time none is"))
}

// Refused prints a warning and does not end the run.
func (x *run) Refused(id sim.RequestID, err error) error {
	x.warnf("router: request %d: %v", id, err)
	return nil
}

func (x *run) warnf(format string, args ...any) {
	if x.cfg.Warn != nil {
		x.cfg.Warn(fmt.Sprintf(format, args...))
	}
}
