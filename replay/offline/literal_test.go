package offline

import (
	"context"
	"errors"

	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// literal implements docs/rules/harness.md word for word, from The main loop to Stepping. literal has one list of
// numbered events, takes one pass at a time, and reads every worker in every round. literal is slow and simple, and
// the tests compare the cluster with it.
type literal struct {
	*run
	now    sim.Time
	seq    int
	events []literalEvent
	pools  []*literalPool
	scales []engines.ScaleEvent // later than now

	traffic literalTraffic
}

type literalPool struct {
	stage   *engines.Stage
	router  router.Router
	workers []*literalWorker
	hidden  bool // a prefill pool: its tokens are not recorded
}

type literalWorker struct {
	id       sim.WorkerID
	pool     *literalPool
	core     scheduler.Core
	busy     bool
	inFlight int
	pass     scheduler.Pass

	starting, removing, deleted bool // see literalscale_test.go
}

type literalEvent struct {
	at      sim.Time
	seq     int
	kind    kind
	worker  *literalWorker // WorkerCompletion, WorkerReady
	request *sim.Request   // DecodeHandoff
}

func byLiteral(r *run, j *journal) (driver, error) {
	l, err := newLiteral(r, j)
	return l.drive, err
}

func newLiteral(r *run, j *journal) (*literal, error) {
	l := &literal{run: r, scales: r.cfg.Scale}
	for i, s := range r.Stages {
		route, err := s.NewRouter()
		if err != nil {
			return nil, err
		}
		p := &literalPool{stage: s, router: &listener{route, i, j}, hidden: i == 0 && len(r.Stages) == 2}
		for range s.Count {
			w, err := p.create()
			if err != nil {
				return nil, err
			}
			j.cores = append(j.cores, w.core)
		}
		l.pools = append(l.pools, p)
	}
	return l, nil
}

// create adds a worker with the next id.
func (p *literalPool) create() (*literalWorker, error) {
	w := &literalWorker{id: sim.WorkerID(len(p.workers)), pool: p}
	p.workers = append(p.workers, w)
	var err error
	w.core, err = p.stage.Core(w.id)
	return w, err
}

var errDeadEnd = errors.New("dead end: requests are left and nothing is to come")

// drive runs the main loop to its end (docs/rules/harness.md, The main loop).
func (l *literal) drive(context.Context) error {
	if err := l.advance(never); err != nil {
		return err
	}
	if !l.over() {
		return errDeadEnd
	}
	return nil
}

// advance moves the clock to an instant and applies all effects until then. Planned sizes of an instant are applied
// after all other effects.
func (l *literal) advance(until sim.Time) error {
	for {
		if err := l.drain(); err != nil {
			return err
		}
		for len(l.scales) > 0 && l.scales[0].At <= l.now {
			e := l.scales[0]
			l.scales = l.scales[1:]
			if err := l.scale(e.Workers, e.Decode); err != nil {
				return err
			}
			if err := l.drain(); err != nil {
				return err
			}
		}
		next, ok := l.next()
		if !ok || next > until {
			return nil
		}
		l.now = next
	}
}

func (l *literal) next() (sim.Time, bool) {
	next, ok := l.Next(l.now, l.clusterInFlight())
	if len(l.events) > 0 {
		if head := l.events[l.head()].at; !ok || head < next {
			next, ok = head, true
		}
	}
	if ok && len(l.scales) > 0 && l.scales[0].At < next {
		next = l.scales[0].At
	}
	return next, ok
}

func (l *literal) over() bool {
	if len(l.events) > 0 || l.clusterInFlight() > 0 || !l.Done() {
		return false
	}
	for _, p := range l.pools {
		for _, w := range p.workers {
			if !w.deleted && (w.busy || w.core.Load() > 0) {
				return false
			}
		}
	}
	return true
}

// clusterInFlight counts requests on workers and in routers, without requests in transfer.
func (l *literal) clusterInFlight() int {
	n := 0
	for _, p := range l.pools {
		n += p.router.Queued()
		for _, w := range p.workers {
			n += w.inFlight
		}
	}
	return n
}

// head returns the index of the first event: the earliest, and among equal times the event created first.
func (l *literal) head() int {
	best := 0
	for i, e := range l.events {
		if b := l.events[best]; e.at < b.at || e.at == b.at && e.seq < b.seq {
			best = i
		}
	}
	return best
}

func (l *literal) push(e literalEvent) {
	e.seq = l.seq
	l.seq++
	l.events = append(l.events, e)
}

// due removes the first event if it is due and of kind k.
func (l *literal) due(k kind) (literalEvent, bool) {
	if len(l.events) == 0 {
		return literalEvent{}, false
	}
	i := l.head()
	e := l.events[i]
	if e.at != l.now || e.kind != k {
		return literalEvent{}, false
	}
	l.events = append(l.events[:i], l.events[i+1:]...)
	return e, true
}

// drain applies the effects of one instant: it repeats the steps in order until a full round changes nothing.
func (l *literal) drain() error {
	for {
		changed := false
		steps := []func() (bool, error){l.completions, l.ready, l.handoffs, l.arrivals, l.passes}
		for _, step := range steps {
			did, err := step()
			if err != nil {
				return err
			}
			changed = changed || did
		}
		if !changed {
			return nil
		}
	}
}

// completions applies the passes that end now.
func (l *literal) completions() (changed bool, err error) {
	for {
		e, ok := l.due(passEnds)
		if !ok {
			return changed, nil
		}
		changed = true
		if err := l.release(e.worker); err != nil {
			return true, err
		}
	}
}

// handoffs applies the transfers that end now.
func (l *literal) handoffs() (changed bool, err error) {
	for {
		e, ok := l.due(handoffDone)
		if !ok {
			return changed, nil
		}
		changed = true
		if err := l.assign(l.pools[1], e.request); err != nil {
			return true, err
		}
	}
}

// arrivals routes the requests that arrive now.
func (l *literal) arrivals() (bool, error) {
	changed := false
	for again := true; again; { // after a rejection another request may arrive
		again = false
		batch := l.Take(l.now, l.clusterInFlight(), nil)
		for i := range batch {
			a := &batch[i]
			changed = true
			ok, err := l.noteArrival(a)
			if err != nil {
				return true, err
			}
			if !ok {
				again = true
				continue
			}
			if err := l.assign(l.pools[0], a.Request); err != nil {
				return true, err
			}
		}
	}
	return changed, nil
}

// passes starts passes on idle workers: pools in order, workers by id.
func (l *literal) passes() (changed bool, err error) {
	for _, p := range l.pools {
		for {
			w := p.idle()
			if w == nil {
				break
			}
			changed = true
			if err := l.pass(w); err != nil {
				return true, err
			}
		}
	}
	return changed, nil
}

func (p *literalPool) idle() *literalWorker {
	for _, w := range p.workers {
		if !w.deleted && !w.busy && w.core.Load() > 0 {
			return w
		}
	}
	return nil
}

// pass starts a pass on w.
func (l *literal) pass(w *literalWorker) error {
	if w.pool.router.(*listener).Metered() {
		w.pass.Detail = new(scheduler.Detail)
	}
	if err := w.core.Step(l.now, l.now, &w.pass); err != nil {
		return l.Failed(w.id, l.now, err)
	}
	if w.pool.hidden {
		l.Collector.Admit(l.now, w.pass.Admitted)
	} else {
		l.Collector.Pass(&w.pass)
	}
	if !w.pass.KVAtEnd {
		if err := w.pool.router.Observe(w.id, &w.pass); err != nil {
			return err
		}
	}
	if w.pass.End == l.now {
		return l.release(w)
	}
	w.busy = true
	l.push(literalEvent{at: w.pass.End, kind: passEnds, worker: w})
	return nil
}

// release frees w after its pass and applies the effects of the pass.
func (l *literal) release(w *literalWorker) error {
	w.busy = false
	for _, m := range w.pass.Marks {
		if m.Last {
			w.inFlight--
		}
	}
	w.cleanUp()
	if w.pass.KVAtEnd {
		w.core.ReportIdle(&w.pass)
		if err := w.pool.router.Observe(w.id, &w.pass); err != nil {
			return err
		}
	}
	for _, m := range w.pass.Marks {
		if err := l.signal(w.pool, m); err != nil {
			return err
		}
	}
	if w.pass.Detail == nil {
		return nil
	}
	placed, err := w.pool.router.(*listener).Measure(l.now, w.id, harness.MetricsOf(w.pass.Detail), nil)
	if err == nil && len(placed) > 0 {
		panic("a report places requests")
	}
	return err
}

func (l *literal) signal(p *literalPool, m scheduler.Mark) error {
	switch {
	case p.hidden && m.Last:
		return l.prefillCompleted(p, m)
	case p.hidden:
		return nil
	case m.Last:
		placed, err := p.router.Finished(l.now, m.Request, nil)
		if err != nil {
			return err
		}
		l.traffic.request(l, m.Request)
		if err := l.finishRequest(m.Request, l.now); err != nil {
			return err
		}
		return l.dispatch(p, placed, nil)
	case len(l.pools) == 2:
		return nil
	}
	placed, err := p.router.PrefillDone(l.now, m.Request, nil)
	return l.dispatch(p, placed, err)
}

func (l *literal) prefillCompleted(p *literalPool, m scheduler.Mark) error {
	placed, err := p.router.PrefillDone(l.now, m.Request, nil)
	if err := l.dispatch(p, placed, err); err != nil {
		return err
	}
	placed, err = p.router.Finished(l.now, m.Request, nil)
	if err := l.dispatch(p, placed, err); err != nil {
		return err
	}
	request := l.Requests.Get(int(m.Request))
	if m.Handoff > 0 {
		l.push(literalEvent{at: l.now + m.Handoff, kind: handoffDone, request: request})
		return nil
	}
	return l.assign(l.pools[1], request)
}

// assign routes a request and applies the placements.
func (l *literal) assign(p *literalPool, q *sim.Request) error {
	placed, err := p.router.Route(l.now, q, nil)
	return l.dispatch(p, placed, err)
}

func (l *literal) dispatch(p *literalPool, placed []router.Placement, err error) error {
	for _, a := range placed {
		w := p.workers[a.Worker]
		w.inFlight++
		if p == l.pools[0] && l.Choice().Info().Name == policy.KV && a.Blocks > 0 {
			l.traffic.reuse = append(l.traffic.reuse, float64(a.Overlap)/float64(a.Blocks))
		}
		request := *a.Request
		if p.hidden {
			l.Collector.PlacePrefill(request.ID, w.id)
			request.OutputTokens = 1
		} else {
			l.Collector.Place(request.ID, w.id)
		}
		if w.busy && w.pass.Waits {
			w.pass.EndWait(l.now)
			for i := range l.events {
				if e := &l.events[i]; e.worker == w && e.kind == passEnds {
					e.at = w.pass.End
				}
			}
		}
		w.core.Submit(&request)
	}
	return err
}
