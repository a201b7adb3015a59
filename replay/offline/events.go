package offline

import (
	"math"

	"github.com/replay-llm/replay/sim"
)

// never is later than every event.
const never = sim.Time(math.MaxFloat64)

// order is the position of an event among events due at the same instant: the number of the event in order of
// creation, as in the reference.
//
// A pass inside a run never becomes a separate event. In the reference its event is created at the end of the pass
// before, in the first round of that instant. Workers start passes in the order of their ids in that round, so rank
// gives the same order.
type order struct {
	made sim.Time
	rank uint64
}

// The constants are ranks of the events of one instant. Handoffs and startups are created before a pass starts, then
// passes by worker. After an instant has become irregular (see instant.irregular), every effect becomes an event with
// a counted rank.
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

// kind is the kind of an event.
type kind uint8

const (
	passEnds kind = iota
	workerReady
	handoffDone
	incidentDue
)

// event is an effect at a later instant.
type event struct {
	at      sim.Time
	order   order
	kind    kind
	worker  *worker       // passEnds, workerReady
	request sim.RequestID // of handoffDone; for an incident, its index in the agenda
}

func (e *event) before(x *event) bool {
	if e.at != x.at {
		return e.at < x.at
	}
	return e.order.before(x.order)
}

// events is a binary heap, earliest event first. A worker has the index of its event, so that the event can be moved.
// internal/heap has two-part keys and fixed items: with calls for comparisons and indexes, an event took 50% longer.
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

// removeAt removes the event at i.
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
