package harness

import (
	"errors"

	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Pool is the router of one stage, and the path of requests through the stage. Only one goroutine may call methods of
// a Pool at a time.
type Pool struct {
	*engines.Stage
	Run    *Run
	Index  int // index among the pools; 0 is the entry pool
	Router router.Router

	to     Carrier
	anew   bool // the router has been restarted and may not know requests in flight
	firsts firsts
	placed []router.Placement // scratch: the latest placements
}

// Carrier executes the effects of a pool on the clock of the replay.
type Carrier interface {
	// Submit gives a placed request to its worker. q is the request for the worker, which ends with the first token
	// on prefill workers.
	Submit(p *Pool, now sim.Time, placed *router.Placement, q *sim.Request) error
	// HandOver lets a request enter the next pool after the transfer of its KV cache, at the instant at plus delay.
	// If delay is not above 0, the request enters at once.
	HandOver(p *Pool, id sim.RequestID, at, delay sim.Time) error
	// Complete ends a request that got its last token at the given instant.
	Complete(id sim.RequestID, at sim.Time) error
	// TurnAway ends a request that is shed.
	TurnAway(id sim.RequestID, at sim.Time) error
	// Refused receives the router's error for a request. Refused returns nil if the replay continues.
	Refused(id sim.RequestID, err error) error
}

// NewPools returns the pools of a run. The routers of the pools know the initial workers.
func (r *Run) NewPools(to Carrier) ([]*Pool, error) {
	var all []*Pool
	for i, s := range r.Stages {
		route, err := s.NewRouter()
		if err != nil {
			return nil, err
		}
		all = append(all, &Pool{Stage: s, Run: r, Index: i, Router: route, to: to})
	}
	return all, nil
}

// Enter routes a request: it is placed, held or shed.
func (p *Pool) Enter(now sim.Time, q *sim.Request) error {
	placed, err := p.Router.Route(now, q, p.placed[:0])
	return p.carryOut(now, placed, err)
}

// Batches reports whether the router decides on requests of one instant together.
func (p *Pool) Batches() bool {
	d, ok := p.Router.(*router.Dispatcher)
	return ok && d.Batches()
}

// Expect lets a router that batches decide on the requests that enter next. With an empty list, requests that have
// not entered are decided on separately.
func (p *Pool) Expect(now sim.Time, all []*sim.Request) error {
	return p.Router.(*router.Dispatcher).Expect(now, all)
}

// MarkPrompts calls need with the prompt nodes that the router keeps for requests that may have left.
func (p *Pool) MarkPrompts(need func(prompt.NodeID)) {
	if d, ok := p.Router.(*router.Dispatcher); ok {
		d.Nodes(need)
	}
}

// LearnCache reports the initial cache of a worker to the router, without a delay of signals.
func (p *Pool) LearnCache(w sim.WorkerID, pass *scheduler.Pass) error {
	if d, ok := p.Router.(*router.Dispatcher); ok {
		return d.LearnCache(w, pass)
	}
	return p.Router.Observe(w, pass)
}

// RestartRouter replaces the router by a new one, which knows the initial workers and no requests.
func (p *Pool) RestartRouter() (err error) {
	p.anew = true
	if err := p.RenewPolicy(); err != nil {
		return err
	}
	p.Router, err = p.NewRouter()
	return err
}

// Drain places held requests after a change of workers.
func (p *Pool) Drain(now sim.Time) error {
	placed, err := p.Router.Drain(now, p.placed[:0])
	return p.carryOut(now, placed, err)
}

// meter is a router that may read the metrics of workers.
type meter interface {
	Metered() bool
	Measure(now sim.Time, w sim.WorkerID, m router.Metrics, dst []router.Placement) ([]router.Placement, error)
}

// Metered reports whether the router reads the metrics of workers.
func (p *Pool) Metered() bool {
	d, ok := p.Router.(meter)
	return ok && d.Metered()
}

// Measure reports the metrics of a worker to the router after a pass, which must have Detail.
func (p *Pool) Measure(now sim.Time, w sim.WorkerID, pass *scheduler.Pass) error {
	d, ok := p.Router.(meter)
	if !ok {
		return nil
	}
	placed, err := d.Measure(now, w, MetricsOf(pass.Detail), p.placed[:0])
	return p.carryOut(now, placed, err)
}

// MetricsOf returns the metrics of a worker after a pass.
func MetricsOf(is *scheduler.Detail) router.Metrics {
	return router.Metrics{Running: int32(is.Running), Waiting: int32(is.Waiting), KV: float64(is.Held) / float64(max(is.Blocks, 1))}
}

// carryOut executes placements in order.
func (p *Pool) carryOut(now sim.Time, placed []router.Placement, err error) error {
	if err != nil {
		return err
	}
	p.placed = placed
	for i := range placed {
		q := placed[i].Request
		if placed[i].Worker == router.None {
			if err := p.to.TurnAway(q.ID, now); err != nil {
				return err
			}
			continue
		}
		if p.Role == scheduler.Prefill {
			q = p.firsts.copyOf(q)
		}
		if err := p.to.Submit(p, now, &placed[i], q); err != nil {
			return err
		}
	}
	return nil
}

// Mark applies the effects of a first or last token at the instant at. now is the time of the clock, which may be
// later in real time.
func (p *Pool) Mark(now, at sim.Time, m *scheduler.Mark) error {
	switch {
	case p.Role == scheduler.Prefill && m.Last:
		return p.sendOn(now, at, m)
	case p.Role == scheduler.Prefill:
		return nil
	}
	// The router of decode workers is not informed of first tokens, unless decode workers compute prompts.
	if m.First && (p.Role != scheduler.Decode || p.Prefills()) && (!m.Last || p.Run.FirstOfOne) {
		if err := p.markPrefilled(now, m.Request); err != nil {
			return err
		}
	}
	if !m.Last {
		return nil
	}
	if err := p.markFinished(now, m.Request); err != nil {
		return err
	}
	return p.to.Complete(m.Request, at)
}

// markPrefilled reports to the router that a request has its first token, and executes the placements that follow.
func (p *Pool) markPrefilled(now sim.Time, id sim.RequestID) error {
	placed, err := p.Router.PrefillDone(now, id, p.placed[:0])
	if p.anew && errors.As(err, new(*router.RequestError)) {
		return nil
	}
	if err := p.carryOut(now, placed, err); err != nil {
		return p.to.Refused(id, err)
	}
	return nil
}

// markFinished reports to the router that a request has left its worker, and executes the placements that follow.
func (p *Pool) markFinished(now sim.Time, id sim.RequestID) error {
	placed, err := p.Router.Finished(now, id, p.placed[:0])
	if err := p.carryOut(now, placed, err); err != nil {
		return p.to.Refused(id, err)
	}
	return nil
}

// Leave reports to the router that a request has left its worker before its last token, and executes the placements
// that follow.
func (p *Pool) Leave(now sim.Time, id sim.RequestID) error { return p.markFinished(now, id) }

// sendOn sends a request from the prefill pool to the decode pool.
func (p *Pool) sendOn(now, at sim.Time, m *scheduler.Mark) error {
	if err := p.markPrefilled(now, m.Request); err != nil {
		return err
	}
	if err := p.markFinished(now, m.Request); err != nil {
		return err
	}
	delay := m.Handoff
	if share := p.Run.LinkShare; share != 0 {
		delay = sim.Time(float64(delay) / share)
	}
	if o := p.Run.Observer; o != nil && !p.Run.PD.PicksEarly() { // after an early choice, the end of the transfer is reported
		o.Handoff(m.Request, at, at+delay)
	}
	return p.to.HandOver(p, m.Request, at, delay)
}

// firsts allocates copies of requests that end with their first token.
type firsts struct{ free []sim.Request }

// firstsChunk is the number of copies allocated at a time.
const firstsChunk = 256

func (f *firsts) copyOf(q *sim.Request) *sim.Request {
	if len(f.free) == 0 {
		f.free = make([]sim.Request, firstsChunk)
	}
	first := &f.free[0]
	f.free = f.free[1:]
	*first = *q
	first.OutputTokens = 1
	return first
}
