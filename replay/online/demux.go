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

// Recorder takes in what happens in a run, from any goroutine and without ever
// making it wait. One goroutine, the demux, brings it before the collector:
// of all that is there arrivals first, then placements, then admissions, then
// tokens. The worker that reports a request's token has reported its admission before, and the driver its arrival before that.
type Recorder struct {
	run  *run
	mu   sync.Mutex
	next news
	wake chan struct{} // of capacity 1

	tokens []tally // by request; what Token has told
}

// news is what the demux has yet to bring before the collector, by kind.
type news [kinds][]item

// item is a piece of news. Outputs are brought by planned end, then by planned begin, then by worker.
type item struct {
	planned Span
	worker  int
	bring   func()
}

// The kinds of news, in the order in which they are brought.
const (
	arrivals = iota
	placements
	admissions
	outputs
	kinds
)

// tally has the known facts of the tokens of a request told one by one.
type tally struct {
	tokens int
	last   sim.Time
}

// Admitted notes that a request was given a place at an instant and found reused tokens of its prompt cached.
func (r *Recorder) Admitted(at sim.Time, id sim.RequestID, reused int) {
	r.noteAdmissions(at, []scheduler.Admission{{Request: id, Reused: reused}})
}

// Token notes that a request gained a token at an instant, for targets that are
// not workers of this process. The last one is followed by no other.
func (r *Recorder) Token(at sim.Time, id sim.RequestID, last bool) {
	r.addNews(outputs, func() { r.addToken(at, id, last) })
}

func (r *Recorder) noteAdmissions(at sim.Time, a []scheduler.Admission) {
	a = slices.Clone(a)
	r.addNews(admissions, func() { r.run.Collector.Admit(at, a) })
}

// addNews adds to the news: bring is called by the demux.
func (r *Recorder) addNews(kind int, bring func()) {
	r.addItem(kind, item{bring: bring})
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

// takeNews is the news. The slices of old are used again.
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

// bringNews is the single goroutine that passes reports to the collector, and their effects to routers and tasks. It
// ends after the last report.
func (r *Recorder) bringNews(ended <-chan struct{}) {
	var n news
	var passes []item // that have ended, with effects that wait for those of other passes
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
				kind[i].bring()
			}
		}
		if passes = append(passes, n[outputs]...); len(n[outputs]) > 0 && !r.run.unordered {
			slices.SortStableFunc(passes, comparePlans)
			continue // there may be more
		}
		passes = r.bringPasses(passes)
	}
}

// bringPasses brings all passes, or the passes of the earliest instant, and returns the rest.
func (r *Recorder) bringPasses(passes []item) []item {
	n := 0
	for n < len(passes) && (r.run.unordered || passes[n].planned.End == passes[0].planned.End) {
		passes[n].bring()
		n++
	}
	return slices.Delete(passes, 0, n)
}

// hasNews reports whether there is news that has not been taken.
func (r *Recorder) hasNews() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.next[outputs]) > 0
}

// comparePlans compares passes by when they were planned to end, to begin, and by worker.
func comparePlans(a, b item) int {
	return cmp.Or(cmp.Compare(a.planned.End, b.planned.End), cmp.Compare(a.planned.Start, b.planned.Start), cmp.Compare(a.worker, b.worker))
}

// noteArrival brings the arrival of a request, which engines may refuse.
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

// applyPass brings a pass of a worker, and carries the effects of its marks, which they
// have at the instant at which it was planned to end.
func (p *pool) applyPass(w sim.WorkerID, pass *scheduler.Pass, planned sim.Time) {
	x := p.run
	p.endAborted(w, pass, planned)
	x.Passed(p.Role, w, pass)
	for i := range pass.Marks {
		p.applyMark(&pass.Marks[i], planned)
	}
}

// endAborted ends the requests that the engine of a worker has aborted, with the pass that it ran meanwhile.
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

// addToken is a token that came alone: the same facts as of a pass with one
// request.
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

// copyPass is a copy of a pass that outlives the call it was handed to, without what
// happened to the cache.
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
