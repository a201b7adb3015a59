package online

import (
	"fmt"
	"sync"

	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// pool is the live workers of one stage and the router in front of them.
type pool struct {
	run     *run
	stage   *engines.Stage
	workers []*worker
	visible bool  // the tokens of its passes count
	next    *pool // where requests go from here; nil: nowhere

	mu     sync.Mutex // one look at the router at a time
	router router.Router
	buf    []router.Placement
}

// worker is a live worker of a pool.
type worker struct {
	*Worker
	id   sim.WorkerID
	pool *pool
}

func newPool(x *run, s *engines.Stage) (*pool, error) {
	p := &pool{run: x, stage: s}
	var err error
	if p.router, err = s.NewRouter(); err != nil {
		return nil, err
	}
	for i := range s.Count {
		core, err := s.Core(0) // a live worker files its events under rank 0
		if err != nil {
			return nil, err
		}
		p.workers = append(p.workers, p.worker(sim.WorkerID(i), core))
	}
	return p, nil
}

func (p *pool) worker(id sim.WorkerID, core scheduler.Core) *worker {
	x := p.run
	w := &worker{id: id, pool: p}
	c := WorkerConfig{
		ID: id, Core: core, Clock: x.clock, Precise: x.cfg.Precise, Detail: x.cfg.Observer != nil,
		Admitted: x.rec.admitted,
		Output:   func(pass *scheduler.Pass) *Barrier { return p.output(w, pass) },
	}
	if x.cfg.Router.Info().Caches && p.stage.Role != scheduler.Decode {
		c.Sinks.Router = p.observe
	}
	if raw := x.cfg.Raw; raw != nil {
		c.Sinks.Raw = func(id sim.WorkerID, pass *scheduler.Pass) { raw(p.stage.Role, id, pass) }
	}
	w.Worker = NewWorker(c)
	return w
}

// output hands a pass to the demux. After a completion that may let another
// request come, the worker waits until that one is there.
func (p *pool) output(w *worker, pass *scheduler.Pass) *Barrier {
	out := output{from: w, pass: keep(pass)}
	if p.awaits(pass) {
		out.falls = NewBarrier(1)
	}
	p.run.rec.tell(func(n *news) { n.outputs = append(n.outputs, out) })
	if h := p.run.cfg.hooks.pass; h != nil {
		h(w.id)
	}
	return out.falls
}

// awaits says that a request may come because of the pass: one that waits for
// another to end, or that the router holds back.
func (p *pool) awaits(pass *scheduler.Pass) bool {
	switch x := p.run; {
	case x.cfg.NoBarrier:
		return false
	case x.cfg.Router.Info().Caches && len(pass.Marks) > 0:
		return true
	default:
		return p.visible && !x.independent && releases(pass)
	}
}

// releases says that a request ended in the pass.
func releases(p *scheduler.Pass) bool {
	for i := range p.Marks {
		if p.Marks[i].Last {
			return true
		}
	}
	return false
}

// enter brings a request before the router. It is given to a worker or held.
func (p *pool) enter(q *sim.Request) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	placed, err := p.router.Route(p.run.clock.Now(), q, p.buf[:0])
	return p.place(placed, err)
}

// place carries out a router's answer, in order. p.mu is held.
func (p *pool) place(placed []router.Placement, err error) error {
	if err != nil {
		return err
	}
	p.buf = placed
	now := p.run.clock.Now()
	for i := range placed {
		to := placed[i]
		p.run.rec.tell(func(n *news) {
			n.places = append(n.places, place{at: now, role: p.stage.Role, hidden: !p.visible, placed: to})
		})
		q := to.Request
		if e := p.run.entry(q.ID); e != nil {
			e.worker.Store(int32(to.Worker))
		}
		if p.visible {
			p.run.dispatched(to.Worker)
		} else {
			first := *q
			first.OutputTokens = 1
			q = &first
		}
		p.workers[to.Worker].Submit(q)
	}
	return nil
}

// observe shows the router what happened to a worker's cache.
func (p *pool) observe(w sim.WorkerID, pass *scheduler.Pass) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.router.Observe(w, pass); err != nil {
		p.run.warn("router: worker %d: %v", w, err)
	}
}

// mark carries the effects of a first or last token. Only the demux calls it.
func (p *pool) mark(m *scheduler.Mark, at sim.Time, falls *Barrier) {
	if !p.visible {
		if m.Last {
			p.prefilled(m, at)
		}
		return
	}
	e := p.run.entry(m.Request)
	if m.First && p.stage.Role != scheduler.Decode {
		p.run.count(func(s *Stats) { s.PrefillMarked++ })
		p.ask(m.Request, p.router.PrefillDone)
	}
	if m.Last {
		p.run.count(func(s *Stats) { s.Freed++ })
		p.ask(m.Request, p.router.Finished)
		if e != nil {
			p.run.driver.complete(e, at, falls)
		}
	}
}

// ask tells the router of a token and carries out its answer. What it complains
// of does not end the run.
func (p *pool) ask(id sim.RequestID, tell func(sim.Time, sim.RequestID, []router.Placement) ([]router.Placement, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	placed, err := tell(p.run.clock.Now(), id, p.buf[:0])
	if err := p.place(placed, err); err != nil {
		p.run.warn("router: request %d: %v", id, err)
	}
}

// prefilled sends a request on to the decode stage, when its KV cache has got
// there.
func (p *pool) prefilled(m *scheduler.Mark, at sim.Time) {
	p.ask(m.Request, p.router.PrefillDone)
	p.ask(m.Request, p.router.Finished)
	x := p.run
	e := x.entry(m.Request)
	if e == nil {
		return
	}
	enter := func() {
		if err := p.next.enter(e.q); err != nil {
			x.driver.end(e, x.clock.Now(), err)
		}
	}
	if o := x.rec.observer; o != nil {
		o.Handoff(m.Request, at, at+m.Handoff)
	}
	if m.Handoff <= 0 {
		enter()
		return
	}
	x.handoffs.at(at+m.Handoff, enter)
}

func (x *run) warn(format string, args ...any) {
	if x.cfg.Warn != nil {
		x.cfg.Warn(fmt.Sprintf(format, args...))
	}
}
