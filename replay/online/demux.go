package online

import (
	"slices"
	"sync"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Recorder takes in what happens in a run, from any goroutine and without ever
// making it wait. One goroutine, the demux, brings it before the collector:
// of all that is there arrivals first, then placements, then admissions, then
// tokens. Whoever reports a request's token has reported its admission before,
// and the driver of its arrival before that.
type Recorder struct {
	mu     sync.Mutex
	next   news
	closed bool
	wake   chan struct{} // of capacity 1

	tokens []tally // by request; what Token has told
}

// news is what has happened since the demux last looked.
type news struct {
	arrivals   []arrival
	places     []place
	admissions []admission
	outputs    []output
}

type arrival struct {
	q          *sim.Request
	at, really sim.Time
}

type place struct {
	at     sim.Time
	role   scheduler.Role
	placed router.Placement
}

type admission struct {
	at sim.Time
	a  []scheduler.Admission
}

// output is a pass, or a token of Recorder.Token.
type output struct {
	from   *worker // nil for a single token
	pass   scheduler.Pass
	falls  *Barrier
	single sim.RequestID
	last   bool
}

// tally is what is known of the tokens of a request told one by one.
type tally struct {
	tokens int
	last   sim.Time
}

func newRecorder() *Recorder { return &Recorder{wake: make(chan struct{}, 1)} }

// Admitted notes that a request was given a place at an instant and found so many
// tokens of its prompt cached.
func (r *Recorder) Admitted(at sim.Time, id sim.RequestID, reused int) {
	r.noteAdmissions(at, []scheduler.Admission{{Request: id, Reused: reused}})
}

// Token notes that a request gained a token at an instant, for targets that are
// not workers of this process. The last one is followed by no other.
func (r *Recorder) Token(at sim.Time, id sim.RequestID, last bool) {
	r.addNews(func(n *news) {
		n.outputs = append(n.outputs, output{pass: scheduler.Pass{Start: at, End: at}, single: id, last: last})
	})
}

func (r *Recorder) noteAdmissions(at sim.Time, a []scheduler.Admission) {
	a = slices.Clone(a)
	r.addNews(func(n *news) { n.admissions = append(n.admissions, admission{at, a}) })
}

// addNews adds to the news.
func (r *Recorder) addNews(add func(*news)) {
	r.mu.Lock()
	add(&r.next)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// close notes that no news will come.
func (r *Recorder) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.addNews(func(*news) {})
}

// takeNews is the news, and whether none will follow.
func (r *Recorder) takeNews(old news) (n news, last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n = r.next
	clear(old.arrivals)
	clear(old.places)
	clear(old.admissions)
	clear(old.outputs)
	r.next = news{old.arrivals[:0], old.places[:0], old.admissions[:0], old.outputs[:0]}
	return n, r.closed
}

// bringNews is the one goroutine that brings news before the collector, and what
// follows from tokens before routers and tasks.
func (x *run) bringNews() {
	r := x.rec
	var n news
	for last := false; !last; {
		<-r.wake
		n, last = r.takeNews(n)
		for i := range n.arrivals {
			x.noteArrival(&n.arrivals[i])
		}
		for i := range n.places {
			x.Routed(n.places[i].role, n.places[i].at, &n.places[i].placed)
		}
		for i := range n.admissions {
			x.Collector.Admit(n.admissions[i].at, n.admissions[i].a)
		}
		for i := range n.outputs {
			x.applyOutput(&n.outputs[i])
		}
	}
}

func (x *run) noteArrival(a *arrival) {
	x.Arrive(a.q, a.at)
	x.rec.tokens = append(x.rec.tokens, tally{})
	if h := x.cfg.hooks.arrived; h != nil {
		h(a.q, a.at, a.really)
	}
}

func (x *run) applyOutput(out *output) {
	if out.from == nil {
		x.addToken(out)
		return
	}
	w := out.from
	x.Passed(w.pool.Role, w.id, &out.pass)
	for i := range out.pass.Marks {
		w.pool.applyMark(&out.pass.Marks[i], out.pass.End, out.falls)
	}
	if endsRequest(&out.pass) {
		x.driver.wakeUp()
	}
	out.falls.Done()
}

// addToken is a token that came alone: the same facts as of a pass with one
// request.
func (x *run) addToken(out *output) {
	t := &x.rec.tokens[out.single]
	t.tokens++
	p := &out.pass
	switch t.tokens {
	case 1:
	case 2:
		p.Second = append(p.Second, out.single)
		fallthrough
	default:
		p.Gaps = append(p.Gaps, p.End-t.last)
	}
	p.Count, p.Tokens = 1, 1
	if first := t.tokens == 1; first || out.last {
		p.Marks = append(p.Marks, scheduler.Mark{Request: out.single, First: first, Last: out.last, Tokens: t.tokens})
	}
	t.last = p.End
	x.Collector.Pass(p)
}

// copyPass is a copy of a pass that outlives the call it was handed to, without what
// happened to the cache.
func copyPass(p *scheduler.Pass) scheduler.Pass {
	k := *p
	k.Gaps, k.Admitted, k.Second, k.Marks = slices.Clone(p.Gaps), slices.Clone(p.Admitted), slices.Clone(p.Second), slices.Clone(p.Marks)
	k.KV, k.Events = nil, nil
	if p.Detail != nil {
		d := *p.Detail
		d.Work, d.Lost, d.Resumed = slices.Clone(d.Work), slices.Clone(d.Lost), slices.Clone(d.Resumed)
		k.Detail = &d
	}
	return k
}
