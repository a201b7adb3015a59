package relay

import (
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// callsPerBatch is how many calls are handed over at once.
const callsPerBatch = 1 << 10

// kind is which method of an observer is to be called.
type kind uint8

const (
	arrival kind = iota
	placement
	transfer
	step
)

// batch is calls in their order, with copies of what they were given. Nothing in
// it is a pointer, so that the garbage collector has no work with it.
type batch struct {
	order      []kind
	arrivals   []request
	placements []routed
	handoffs   []handoff
	passes     []pass

	// What belongs to the passes, one after the other.
	admitted []scheduler.Admission
	marks    []scheduler.Mark
	gaps     []sim.Time
	second   []sim.RequestID
	lost     []sim.RequestID
	resumed  []sim.RequestID
	work     []scheduler.Work
}

// request is a sim.Request without its prompt.
type request struct {
	at            sim.Time
	input, output int
	id            sim.RequestID
	session       int32
	turn          int32
	line          int32
}

type routed struct {
	request          request
	cost, secondCost float64
	overlap, blocks  int32
	worker, second   sim.WorkerID
	stage            scheduler.Role
}

type handoff struct {
	from, to sim.Time
	id       sim.RequestID
}

// pass is a scheduler.Pass and its detail; the rest of it is in the batch.
type pass struct {
	start, end, gap                                    sim.Time
	count, decoding, tokens, preempted, prefillTokens  int
	prefillEnd                                         sim.Time
	running, waiting, blocks, held, cached             int
	admitted, marks, gaps, second, lost, resumed, work int32 // how many
	worker                                             sim.WorkerID
	stage                                              scheduler.Role
	kvAtEnd, detailed                                  bool
}

func newBatch() *batch {
	return &batch{order: make([]kind, 0, callsPerBatch), passes: make([]pass, 0, callsPerBatch)}
}

func (b *batch) isComplete() bool { return len(b.order) >= callsPerBatch }

func (b *batch) reset() {
	b.order, b.arrivals, b.placements, b.handoffs, b.passes = b.order[:0], b.arrivals[:0], b.placements[:0], b.handoffs[:0], b.passes[:0]
	b.admitted, b.marks, b.gaps, b.second, b.lost, b.resumed, b.work = b.admitted[:0], b.marks[:0], b.gaps[:0], b.second[:0], b.lost[:0], b.resumed[:0], b.work[:0]
}

func keepSlice(q *sim.Request, at sim.Time) request {
	return request{at: at, input: q.InputTokens, output: q.OutputTokens, id: q.ID, session: q.Session, turn: q.Turn, line: q.Line}
}

func (b *batch) arrived(q *sim.Request, at sim.Time) {
	b.order = append(b.order, arrival)
	b.arrivals = append(b.arrivals, keepSlice(q, at))
}

func (b *batch) routed(stage scheduler.Role, at sim.Time, p *router.Placement) {
	b.order = append(b.order, placement)
	b.placements = append(b.placements, routed{
		request: keepSlice(p.Request, at), stage: stage, worker: p.Worker, overlap: p.Overlap, blocks: p.Blocks,
		cost: p.Cost, second: p.Second, secondCost: p.SecondCost,
	})
}

func (b *batch) handoff(id sim.RequestID, from, to sim.Time) {
	b.order = append(b.order, transfer)
	b.handoffs = append(b.handoffs, handoff{from, to, id})
}

func (b *batch) pass(stage scheduler.Role, w sim.WorkerID, p *scheduler.Pass) {
	b.order = append(b.order, step)
	b.passes = b.passes[:len(b.passes)+1] // there is room for as many as there are calls
	k := &b.passes[len(b.passes)-1]       // with what was there before
	k.start, k.end, k.gap, k.count, k.decoding, k.tokens = p.Start, p.End, p.Gap, p.Count, p.Decoding, p.Tokens
	k.preempted, k.prefillTokens, k.kvAtEnd, k.worker, k.stage = p.Preempted, p.PrefillTokens, p.KVAtEnd, w, stage
	k.admitted, k.marks = int32(len(p.Admitted)), int32(len(p.Marks))
	k.gaps, k.second = int32(len(p.Gaps)), int32(len(p.Second))
	b.admitted = append(b.admitted, p.Admitted...)
	b.marks = append(b.marks, p.Marks...)
	b.gaps = append(b.gaps, p.Gaps...)
	b.second = append(b.second, p.Second...)
	d := p.Detail
	if k.detailed = d != nil; !k.detailed {
		return
	}
	k.prefillEnd = d.PrefillEnd
	k.running, k.waiting, k.blocks, k.held, k.cached = d.Running, d.Waiting, d.Blocks, d.Held, d.Cached
	k.lost, k.resumed, k.work = int32(len(d.Lost)), int32(len(d.Resumed)), int32(len(d.Work))
	b.lost = append(b.lost, d.Lost...)
	b.resumed = append(b.resumed, d.Resumed...)
	b.work = append(b.work, d.Work...)
}

// showAll makes the calls.
func (b *batch) showAll(to harness.Observer) {
	s := shower{batch: *b, to: to}
	for _, k := range b.order {
		switch k {
		case arrival:
			s.arrival()
		case placement:
			s.placement()
		case transfer:
			h := takeFirst(&s.handoffs, 1)
			to.Handoff(h[0].id, h[0].from, h[0].to)
		case step:
			s.step()
		}
	}
}

// shower is what is left of a batch to be shown.
type shower struct {
	batch
	to harness.Observer
	// What is shown is made here, one at a time.
	asked  sim.Request
	placed router.Placement
	shows  scheduler.Pass
	detail scheduler.Detail
}

// takeFirst takes the first n of what is left of s.
func takeFirst[T any](s *[]T, n int32) []T {
	first := (*s)[:n:n]
	*s = (*s)[n:]
	return first
}

func (s *shower) arrival() {
	r := &takeFirst(&s.arrivals, 1)[0]
	s.to.Arrived(s.askNext(r), r.at)
}

func (s *shower) askNext(r *request) *sim.Request {
	q := &s.asked
	q.ID, q.InputTokens, q.OutputTokens, q.Session, q.Turn, q.Line = r.id, r.input, r.output, r.session, r.turn, r.line
	return q
}

func (s *shower) placement() {
	r := &takeFirst(&s.placements, 1)[0]
	p := &s.placed
	p.Request, p.Worker, p.Overlap, p.Blocks = s.askNext(&r.request), r.worker, r.overlap, r.blocks
	p.Cost, p.Second, p.SecondCost = r.cost, r.second, r.secondCost
	s.to.Routed(r.stage, r.request.at, p)
}

func (s *shower) step() {
	k := &takeFirst(&s.passes, 1)[0]
	p := &s.shows // field by field: the rest stays empty
	p.Start, p.End, p.Gap, p.Count, p.Decoding, p.Tokens = k.start, k.end, k.gap, k.count, k.decoding, k.tokens
	p.Preempted, p.PrefillTokens, p.KVAtEnd = k.preempted, k.prefillTokens, k.kvAtEnd
	p.Admitted, p.Marks = takeFirst(&s.admitted, k.admitted), takeFirst(&s.marks, k.marks)
	p.Gaps, p.Second = takeFirst(&s.gaps, k.gaps), takeFirst(&s.second, k.second)
	p.Detail = nil
	if k.detailed {
		d := &s.detail
		d.PrefillEnd, d.Running, d.Waiting, d.Blocks, d.Held, d.Cached = k.prefillEnd, k.running, k.waiting, k.blocks, k.held, k.cached
		d.Lost, d.Resumed, d.Work = takeFirst(&s.lost, k.lost), takeFirst(&s.resumed, k.resumed), takeFirst(&s.work, k.work)
		p.Detail = d
	}
	s.to.Pass(k.stage, k.worker, p)
}
