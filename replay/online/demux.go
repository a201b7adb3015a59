package online

import (
	"cmp"
	"slices"
	"sync"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Recorder receives the events of a run, from any goroutine and without blocking it. A single goroutine, the demux,
// records the events in the collector. Of the available events, the demux records arrivals first, then placements,
// then admissions, then tokens. Before a worker reports a token of a request, it has reported the admission, and the
// driver the arrival.
type Recorder struct {
	run  *run
	mu   sync.Mutex
	next news
	wake chan struct{} // of capacity 1

	tokens []tally // by request; tokens reported by Token
}

// news is the events that the demux has not recorded yet, by kind.
type news [kinds][]item

// item is an event. Outputs are recorded by planned end, then by planned begin, then by worker.
type item struct {
	planned Span
	worker  int
	deliver func()
}

// The constants are the kinds of events, in the order in which they are recorded.
const (
	arrivals = iota
	placements
	admissions
	outputs
	kinds
)

// tally is the tokens of a request that are reported one by one.
type tally struct {
	tokens int
	last   sim.Time
}

// Admitted reports that a request was admitted at an instant, with the given number of cached prompt tokens.
func (r *Recorder) Admitted(at sim.Time, id sim.RequestID, reused int) {
	r.noteAdmissions(at, []scheduler.Admission{{Request: id, Reused: reused}})
}

// Token reports that a request gained a token at an instant, for targets that are not workers of this process. last
// reports whether it is the last token.
func (r *Recorder) Token(at sim.Time, id sim.RequestID, last bool) {
	r.addNews(outputs, func() { r.addToken(at, id, last) })
}

func (r *Recorder) noteAdmissions(at sim.Time, a []scheduler.Admission) {
	a = slices.Clone(a)
	r.addNews(admissions, func() { r.run.Collector.Admit(at, a) })
}

// addNews adds an event. The demux calls deliver to record the event.
func (r *Recorder) addNews(kind int, deliver func()) {
	r.addItem(kind, item{deliver: deliver})
}

func (r *Recorder) addItem(kind int, i item) {
	r.mu.Lock()
	r.next[kind] = append(r.next[kind], i)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// takeNews returns the events so far. takeNews reuses the slices of old.
func (r *Recorder) takeNews(old news) news {
	for kind := range old {
		clear(old[kind])
		old[kind] = old[kind][:0]
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.next
	r.next = old
	return n
}

// deliverNews is the goroutine of the demux. deliverNews passes events to the collector, and the effects of events to
// routers and tasks. deliverNews returns after the last event.
func (r *Recorder) deliverNews(ended <-chan struct{}) {
	var n news
	var passes []item // ended passes that must wait for other passes
	for open := true; open || len(passes) > 0; {
		if len(passes) == 0 {
			select {
			case <-r.wake:
			case <-ended:
				open = false
			}
		} else if open {
			r.run.instants.awaitCarry(passes[0].planned.End, r.hasNews)
		}
		n = r.takeNews(n)
		for _, kind := range n[:outputs] {
			for i := range kind {
				kind[i].deliver()
			}
		}
		if passes = append(passes, n[outputs]...); len(n[outputs]) > 0 && !r.run.unordered {
			slices.SortStableFunc(passes, comparePlans)
			continue // more passes may be available
		}
		passes = r.recordPasses(passes)
	}
}

// recordPasses records the passes of the earliest instant, or all passes if the run is unordered. recordPasses returns
// the remaining passes.
func (r *Recorder) recordPasses(passes []item) []item {
	n := 0
	for n < len(passes) && (r.run.unordered || passes[n].planned.End == passes[0].planned.End) {
		passes[n].deliver()
		n++
	}
	return slices.Delete(passes, 0, n)
}

// hasNews reports whether there are outputs that have not been taken.
func (r *Recorder) hasNews() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.next[outputs]) > 0
}

// comparePlans compares passes by planned end, planned begin and worker.
func comparePlans(a, b item) int {
	return cmp.Or(cmp.Compare(a.planned.End, b.planned.End), cmp.Compare(a.planned.Start, b.planned.Start), cmp.Compare(a.worker, b.worker))
}

// noteArrival records the arrival of a request, and its rejection if refused is not nil.
func (x *run) noteArrival(q *sim.Request, at, really sim.Time, refused *harness.Rejection) {
	x.Arrive(q, at)
	if refused != nil {
		x.RejectArrival(refused, at)
	}
	x.rec.tokens = append(x.rec.tokens, tally{})
	if h := x.cfg.hooks.arrived; h != nil {
		h(q, at, really)
	}
}

// applyPass records a pass of a worker and applies its marks at the planned end of the pass.
func (p *pool) applyPass(w sim.WorkerID, pass *scheduler.Pass, planned sim.Time) {
	x := p.run
	p.endAborted(w, pass, planned)
	x.Passed(p.Role, w, pass)
	for i := range pass.Marks {
		p.applyMark(&pass.Marks[i], planned)
	}
}

// endAborted ends the requests that the engine of a worker aborted in a pass.
func (p *pool) endAborted(w sim.WorkerID, pass *scheduler.Pass, planned sim.Time) {
	x := p.run
	for i := range pass.Aborted {
		a := &pass.Aborted[i]
		e := x.entryOf(a.Request)
		if x.Observer != nil {
			x.Observer.Left(&harness.Departure{
				Request: a.Request, Stage: p.Role, Worker: w, At: pass.Start, Outcome: collector.Rejected, Gained: a.Tokens, Last: a.Last,
			})
		}
		x.Reject(x.NewAbort(a))
		p.mu.Lock()
		p.instant = planned
		err := p.Leave(x.clock.Now(), a.Request)
		p.mu.Unlock()
		if err != nil {
			x.warnf("router: request %d: %v", a.Request, err)
		}
		x.driver.endRequest(e, planned, nil)
	}
}

// addToken records a single token, like a pass with one request.
func (r *Recorder) addToken(at sim.Time, id sim.RequestID, last bool) {
	t := &r.tokens[id]
	t.tokens++
	p := &scheduler.Pass{Start: at, End: at, Count: 1, Tokens: 1}
	if t.tokens == 2 {
		p.Second = []sim.RequestID{id}
	}
	if t.tokens > 1 {
		p.Gaps = []sim.Time{at - t.last}
	}
	if first := t.tokens == 1; first || last {
		p.Marks = []scheduler.Mark{{Request: id, First: first, Last: last, Tokens: t.tokens}}
	}
	t.last = at
	r.run.Collector.Pass(p)
}

// copyPass returns a copy of a pass that stays valid after the call. The copy has no cache changes.
func copyPass(p *scheduler.Pass) *scheduler.Pass {
	k := *p
	k.Gaps, k.Admitted, k.Second, k.Marks = slices.Clone(p.Gaps), slices.Clone(p.Admitted), slices.Clone(p.Second), slices.Clone(p.Marks)
	k.Aborted = slices.Clone(p.Aborted)
	k.KV, k.Events = nil, nil
	if p.Detail != nil {
		d := *p.Detail
		d.Work, d.Lost, d.Resumed = slices.Clone(d.Work), slices.Clone(d.Lost), slices.Clone(d.Resumed)
		k.Detail = &d
	}
	return &k
}
