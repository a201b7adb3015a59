package ledger

import (
	"github.com/replay-llm/replay/internal/sliding"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Book keeps the ledger of every request of a run. It observes a replay.
//
// The book does not add the time of a pass to each request. Each worker counts its total prefill time in ms, and a
// request takes the increase while it had a seat. So the work per pass depends only on its admissions, prompts, and
// first and last tokens.
type Book struct {
	engines  []*Engine                   // by stage: one, or prefill and decode
	mixed    []*Engine                   // by worker of the first stage, if they differ; the last engine is for all further workers
	prefill  harness.PerWorker[sim.Time] // prefill time so far, in ms
	accounts sliding.List[account]
	work     *Log
	fronted  bool                    // a request was in a front end
	firsts   map[sim.RequestID]Entry // ledgers up to the first token; nil unless kept
}

// phase is the state of a request.
type phase uint8

const (
	coming  phase = iota // not placed on a worker
	queued               // in the queue of an engine, before its first admission
	seated               // has a seat in an engine
	lost                 // was preempted or left its worker
	handed               // its KV cache is in transfer
	settled              // has its last token
)

// account is the unfinished ledger of one request.
type account struct {
	entry  Entry
	since  sim.Time // up to here the parts are known
	before sim.Time // the worker's ms of prefill at since, while seated
	own    sim.Time // ms of prefill of passes with its tokens, since then
	decode sim.Time // ms of decode parts on this stage
	input  int32
	phase  phase
	ever   bool // it has lost its place before
}

// NewBook returns a book for a cluster of the given stages: one, or prefill and decode. With a log, the book records
// in it the passes that computed each prompt.
func NewBook(work *Log, engines ...*Engine) *Book {
	return &Book{engines: engines, work: work}
}

// SetEngines gives the workers of the first stage different engines.
func (b *Book) SetEngines(engines []*Engine) { b.mixed = engines }

// KeepFirsts makes the book also keep the ledgers up to the first tokens.
func (b *Book) KeepFirsts() { b.firsts = map[sim.RequestID]Entry{} }

// First returns the ledger of a request up to its first token. The parts of the ledger up to the first token sum to
// the TTFT. All time of decode parts is in Stretched. The second result is false if the request has no token, or if
// such ledgers are not kept.
func (b *Book) First(id sim.RequestID) (Entry, bool) {
	e, ok := b.firsts[id]
	return e, ok
}

// Grow reserves memory for this number of requests.
func (b *Book) Grow(requests int) {
	b.accounts.Grow(requests)
}

// Drop removes the accounts of all requests with smaller ids.
func (b *Book) Drop(before sim.RequestID) { b.accounts.Drop(int(before)) }

// Entry returns the ledger of a request. The second result is false if the request has not finished.
func (b *Book) Entry(id sim.RequestID) (Entry, bool) {
	if int(id) >= b.accounts.Len() {
		return Entry{}, false
	}
	a := b.accounts.At(int(id))
	return a.entry, a.phase == settled
}

// FrontEnd returns the time that a request was in the front end before it arrived. The second result is false if no
// request was in a front end.
func (b *Book) FrontEnd(id sim.RequestID) (ms float64, ok bool) {
	if !b.fronted {
		return 0, false
	}
	return b.accounts.At(int(id)).entry[FrontEnd], true
}

// Arrived opens the account of q.
func (b *Book) Arrived(q *sim.Request, at sim.Time) {
	a := account{since: at, input: int32(q.InputTokens)}
	if ms := q.Arrived - at; ms > 0 { // in real time the arrival may be late
		b.fronted = true
		a.addPart(FrontEnd, ms)
		a.since = q.Arrived
	}
	b.accounts.Append(a)
}

// Routed records the end of the time in the router. Round robin routes immediately: the time before is a wait for the
// engine.
func (b *Book) Routed(_ scheduler.Role, at sim.Time, p *router.Placement) {
	a := b.accounts.At(int(p.Request.ID))
	if a.phase == lost {
		return // that is a wait for its place
	}
	if p.Blocks > 0 {
		a.addPart(Router, at-a.since)
		a.since = at
	}
	a.phase = queued
}

// Handoff adds the transfer of a KV cache from prefill to decode.
func (b *Book) Handoff(id sim.RequestID, from, to sim.Time) {
	a := b.accounts.At(int(id))
	if from > a.since {
		a.addPart(Router, from-a.since) // the wait for a decode worker
	}
	a.addPart(Transfer, to-from)
	a.since = to
}

// Left removes a request from its worker. The time until its next seat counts as recomputation. If the request begins
// again from its prompt, its earlier time counts as recomputation, too.
func (b *Book) Left(d *harness.Departure) {
	a := b.accounts.At(int(d.Request))
	switch {
	case a.phase == seated:
		a.leavePlace(d.At, *b.prefill.At(d.Stage, d.Worker))
	case a.phase == handed:
		a.addPart(Transfer, d.At-a.since) // subtract the part of the transfer after the departure
	case a.ever:
		a.addPart(Recompute, d.At-a.since)
	default:
		a.addPart(Queue, d.At-a.since)
	}
	if !d.Keeps {
		all := float64(a.decode)
		for _, ms := range a.entry {
			all += ms
		}
		a.entry, a.decode = Entry{Recompute: all}, 0
	}
	a.since, a.phase, a.ever = d.At, lost, true
}

// Pass records a pass. Admitted requests get their seats at its start, before the prefill part of this pass.
// Preempted requests have lost their seats before the start.
func (b *Book) Pass(stage scheduler.Role, w sim.WorkerID, p *scheduler.Pass) {
	prefill := b.prefill.At(stage, w)
	for i := range p.Admitted {
		b.accounts.At(int(p.Admitted[i].Request)).takeSeat(p.Start, *prefill)
	}
	if d := p.Detail; d != nil {
		for _, id := range d.Lost {
			b.accounts.At(int(id)).losePlace(p.Start, *prefill)
		}
		if ms := min(d.PrefillEnd, p.FirstEnd()) - p.Start; ms > 0 {
			b.chargePrefill(stage, w, p, ms)
			*prefill += ms
		}
	}
	for i := range p.Marks {
		m := &p.Marks[i]
		if m.First && b.firsts != nil && stage != scheduler.Prefill {
			b.firsts[m.Request] = b.accounts.At(int(m.Request)).entryAt(p.End, *prefill)
		}
		if m.Last {
			b.closeAccount(stage, w, m, p.End, *prefill)
		}
	}
}

// chargePrefill adds the prefill part of a pass to the requests with prompt tokens in it.
func (b *Book) chargePrefill(stage scheduler.Role, w sim.WorkerID, p *scheduler.Pass, ms sim.Time) {
	for i := range p.Detail.Work {
		a := b.accounts.At(int(p.Detail.Work[i].Request))
		if a.phase != seated {
			continue // it has lost its place in this very pass
		}
		a.own += ms
		if a.ever {
			a.addPart(Recompute, ms)
		} else {
			a.addPart(Prefill, ms)
		}
	}
	if b.work != nil {
		b.work.addPrefill(stage, w, p.Start, ms, p.Detail.Work)
	}
}

// closeAccount closes the account of a stage. After the last stage it closes the account of the request.
func (b *Book) closeAccount(stage scheduler.Role, w sim.WorkerID, m *scheduler.Mark, at, prefill sim.Time) {
	a := b.accounts.At(int(m.Request))
	a.leavePlace(at, prefill)
	engine := b.engines[stage.Stage()]
	if len(b.mixed) > 0 {
		engine = b.mixed[min(int(w), len(b.mixed)-1)]
	}
	alone := sim.Time(engine.Alone(int(a.input), m.Tokens))
	alone = min(alone, a.decode)
	a.addPart(Alone, alone)
	a.addPart(Stretched, a.decode-alone)
	a.decode = 0
	a.phase = settled
	if stage == scheduler.Prefill {
		a.phase = handed
	}
}

// takeSeat records that the request gets a seat on a worker.
func (a *account) takeSeat(at, prefill sim.Time) {
	switch a.phase {
	case queued:
		a.addPart(Queue, at-a.since)
	case lost:
		a.addPart(Recompute, at-a.since)
	default:
		return // the next chunk of a prompt
	}
	a.since, a.before, a.own, a.phase = at, prefill, 0, seated
}

// leavePlace divides a time with a seat between the prefill of other requests and the decode parts.
func (a *account) leavePlace(at, prefill sim.Time) {
	others := (prefill - a.before - a.own).Max0()
	decode := (at - a.since - a.own - others).Max0()
	a.addPart(Others, others)
	a.decode += decode
	a.since = at
}

// entryAt returns the ledger of a request with a seat, at a given time.
func (a account) entryAt(at, prefill sim.Time) Entry {
	if a.phase == seated {
		a.leavePlace(at, prefill)
	}
	a.addPart(Stretched, a.decode)
	return a.entry
}

// losePlace records that the request loses its seat.
func (a *account) losePlace(at, prefill sim.Time) {
	if a.phase == seated {
		a.leavePlace(at, prefill)
		a.phase, a.ever = lost, true
	}
}

func (a *account) addPart(p Part, ms sim.Time) { a.entry[p] += float64(ms) }
