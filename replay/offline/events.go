package offline

import (
	"math"

	"github.com/replay-llm/replay/sim"
)

// never is later than everything that happens.
const never = sim.Time(math.MaxFloat64)

// order is an event's place among events due at the same instant: the number of the event in order of creation, as in
// the reference.
//
// A pass inside a run is never made a separate event. It would have been made
// at the end of the pass before, in the first round of that instant, when
// workers start passes in the order of their ids, which is rank.
type order struct {
	made sim.Time
	rank uint64
}

// Ranks of the events of one instant. Handoffs and startups are made before any
// pass starts; passes start by worker; once an instant has taken an unusual turn
// (see cluster.irregular) everything is made an event and counted on.
const (
	rankPass    = 1 << 32
	rankCounted = 1 << 48
)

func (o order) before(x order) bool {
	if o.made != x.made {
		return o.made < x.made
	}
	return o.rank < x.rank
}

// kind is what an event is about.
type kind uint8

const (
	passEnds kind = iota
	workerReady
	handoffDone
	incidentDue
)

// event is something that happens later.
type event struct {
	at      sim.Time
	order   order
	kind    kind
	worker  *worker       // passEnds, workerReady
	request sim.RequestID // handoffDone; of an incident, its place in the agenda
}

func (e *event) before(x *event) bool {
	if e.at != x.at {
		return e.at < x.at
	}
	return e.order.before(x.order)
}

// events is a binary heap, earliest first. A worker knows the place of the end
// of its pass, so that it can be moved. It is not one of internal/heap, which has
// keys of two parts and items that stay: with calls to compare and to note
// places, an event took half as long again.
type events []event

func (h *events) push(e event) {
	*h = append(*h, e)
	h.siftUp(len(*h) - 1)
}

func (h *events) pop() event {
	s := *h
	e := s[0]
	last := len(s) - 1
	s[0] = s[last]
	*h = s[:last]
	if last > 0 {
		h.siftDown(0)
	}
	return e
}

// restoreAt restores the order after the event at i has changed.
func (h *events) restoreAt(i int) {
	h.siftUp(i)
	h.siftDown(i)
}

// removeAt takes out the event at i.
func (h *events) removeAt(i int) {
	s := *h
	last := len(s) - 1
	s[i] = s[last]
	*h = s[:last]
	if i < last {
		h.restoreAt(i)
	}
}

func (h *events) siftUp(i int) {
	s := *h
	e := s[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !e.before(&s[parent]) {
			break
		}
		s.putAt(i, s[parent])
		i = parent
	}
	s.putAt(i, e)
}

func (h *events) siftDown(i int) {
	s := *h
	e := s[i]
	for {
		child := 2*i + 1
		if child >= len(s) {
			break
		}
		if child+1 < len(s) && s[child+1].before(&s[child]) {
			child++
		}
		if !s[child].before(&e) {
			break
		}
		s.putAt(i, s[child])
		i = child
	}
	s.putAt(i, e)
}

func (h events) putAt(i int, e event) {
	h[i] = e
	if e.kind == passEnds {
		e.worker.at = i
	}
}
