package relay

import (
	"slices"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// callsPerBatch is the number of calls in a batch.
const callsPerBatch = 1 << 10

// kind selects the method of an observer.
type kind uint8

const (
	arrival kind = iota
	placement
	transfer
	departure
	step
	end
)

// batch holds calls in order, with copies of their arguments.
type batch struct {
	order      []kind
	arrivals   []asked
	placements []placed
	handoffs   []handoff
	departures []harness.Departure
	passes     []pass
	ends       []collector.Folded

	// admitted and the fields after it hold the lists of the passes, concatenated.
	admitted []scheduler.Admission
	marks    []scheduler.Mark
	times    []sim.Time
	ids      []sim.RequestID
	work     []scheduler.Work
	events   []scheduler.KVEvent
	stored   []scheduler.KVBlock
	removed  []uint64
}

// asked is a request without its prompt, at a given time.
type asked struct {
	sim.Request
	at sim.Time
}

type placed struct {
	router.Placement
	asked asked
	stage scheduler.Role
}

type handoff struct {
	from, to sim.Time
	id       sim.RequestID
}

// pass is a pass with its lists in the batch, and with its detail if it has one.
type pass struct {
	scheduler.Pass
	detail scheduler.Detail
	worker sim.WorkerID
	stage  scheduler.Role
}

func newBatch() *batch {
	return &batch{order: make([]kind, 0, callsPerBatch), passes: make([]pass, 0, callsPerBatch)}
}

// reset empties the batch and keeps its memory.
func (b *batch) reset() {
	*b = batch{
		order: b.order[:0], arrivals: b.arrivals[:0], placements: b.placements[:0], handoffs: b.handoffs[:0], departures: b.departures[:0], passes: b.passes[:0], ends: b.ends[:0],
		admitted: b.admitted[:0], marks: b.marks[:0], times: b.times[:0], ids: b.ids[:0], work: b.work[:0],
		events: b.events[:0], stored: b.stored[:0], removed: b.removed[:0],
	}
}

// keepRequest copies q without its prompt.
func keepRequest(q *sim.Request, at sim.Time) asked {
	kept := asked{*q, at}
	kept.Prompt = prompt.Prompt{}
	return kept
}

// keepList appends list to all, and returns the copy.
func keepList[T any](all *[]T, list []T) []T {
	from := len(*all)
	*all = append(*all, list...)
	return (*all)[from:len(*all):len(*all)]
}

// keepPass copies p without the data for the index of a router.
func (b *batch) keepPass(stage scheduler.Role, w sim.WorkerID, p *scheduler.Pass) {
	b.passes = append(b.passes, pass{Pass: *p, stage: stage, worker: w}) // the capacity is that of calls
	k := &b.passes[len(b.passes)-1]
	k.KV, k.Nanos = nil, nil
	k.Events = keepList(&b.events, p.Events)
	for i := range k.Events {
		e := &k.Events[i]
		e.Stored, e.Removed = keepList(&b.stored, e.Stored), keepList(&b.removed, e.Removed)
	}
	k.Admitted, k.Marks = keepList(&b.admitted, p.Admitted), keepList(&b.marks, p.Marks)
	k.Aborted = slices.Clone(p.Aborted) // aborted requests are few
	k.Gaps, k.Ends, k.Second = keepList(&b.times, p.Gaps), keepList(&b.times, p.Ends), keepList(&b.ids, p.Second)
	if d := p.Detail; d != nil {
		k.detail, k.Detail = *d, &k.detail
		k.detail.Lost, k.detail.Resumed, k.detail.Work = keepList(&b.ids, d.Lost), keepList(&b.ids, d.Resumed), keepList(&b.work, d.Work)
	}
}

// showAll makes the calls. Folded requests go to sink until sink returns an error.
func (b *batch) showAll(to harness.Observer, sink collector.Sink) (err error) {
	left := *b
	for _, k := range b.order {
		switch k {
		case arrival:
			a := takeFirst(&left.arrivals)
			to.Arrived(&a.Request, a.at)
		case placement:
			p := takeFirst(&left.placements)
			p.Placement.Request = &p.asked.Request
			to.Routed(p.stage, p.asked.at, &p.Placement)
		case transfer:
			h := takeFirst(&left.handoffs)
			to.Handoff(h.id, h.from, h.to)
		case departure:
			to.Left(takeFirst(&left.departures))
		case step:
			p := takeFirst(&left.passes)
			to.Pass(p.stage, p.worker, &p.Pass)
		case end:
			if f := takeFirst(&left.ends); err == nil {
				err = sink.Folded(f)
			}
		}
	}
	return err
}

// takeFirst removes the first element of s and returns it.
func takeFirst[T any](s *[]T) *T {
	first := &(*s)[0]
	*s = (*s)[1:]
	return first
}
