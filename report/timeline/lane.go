package timeline

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// lane is a request's own line, and how far its arrows have come.
type lane struct {
	arrival sim.Time
	stays   [2]stay
	hidden  bool // the cut leaves it out
	handed  bool // its KV cache has left the prefill worker
	begun   bool // its first arrow has begun
	open    bool // the event that begins it is written
}

// stay is a request's time at a stage.
type stay struct {
	routed, admit, first sim.Time
	admitted, token      bool
}

func (l *lane) stage(s scheduler.Role) *stay { return &l.stays[index(s)] }

// follow takes the requests of a pass further.
func (w *Writer) follow(stage scheduler.Role, k *worker, p *scheduler.Pass) {
	for i := range p.Admitted {
		w.admit(stage, k, p.Admitted[i].Request, p.Start)
	}
	if p.Detail != nil {
		for _, id := range p.Detail.Lost {
			if !w.lanes[id].hidden && w.shown(p.Start, p.Start) {
				w.open(id)
				w.out.mark(id, losesPlace, p.Start)
			}
		}
	}
	for i := range p.Marks {
		m := &p.Marks[i]
		l := &w.lanes[m.Request]
		if l.hidden {
			continue
		}
		if m.First {
			w.first(stage, m.Request, p.End)
		}
		if m.Last {
			k.watched--
			w.last(stage, k, m.Request, p)
		}
	}
}

// admit ends a request's wait; the arrow goes on to its first pass.
func (w *Writer) admit(stage scheduler.Role, k *worker, id sim.RequestID, at sim.Time) {
	l := &w.lanes[id]
	s := l.stage(stage)
	if l.hidden || s.admitted {
		return
	}
	s.admit, s.admitted = at, true
	if stage == scheduler.Decode {
		w.phase(id, waitForDecode, s.routed, at)
	} else {
		w.phase(id, wait, l.arrival, at)
	}
	w.step(id, at, &k.track)
	if l.handed && w.shown(at, at) {
		w.out.flow(finishes, arrowHandoff, id, at, &k.track)
	}
}

// first ends a request's prefill.
func (w *Writer) first(stage scheduler.Role, id sim.RequestID, at sim.Time) {
	s := w.lanes[id].stage(stage)
	s.first, s.token = at, true
	w.phase(id, prefill, s.admit, at)
}

// last ends a request's time at a stage. Arrows lead from the start of the pass
// that gave the last token.
func (w *Writer) last(stage scheduler.Role, k *worker, id sim.RequestID, p *scheduler.Pass) {
	l := &w.lanes[id]
	s := l.stage(stage)
	if s.token && p.End > s.first {
		w.phase(id, decode, s.first, p.End)
	}
	if stage == scheduler.Prefill {
		if p.Start != s.admit { // else the arrow is there, and would lead to where it is
			w.step(id, p.Start, &k.track)
		}
		if w.shown(p.Start, p.Start) {
			w.out.flow(starts, arrowHandoff, id, p.Start, &k.track)
		}
		return
	}
	if w.shown(l.arrival, p.End) {
		w.open(id)
		w.out.asynchronous(ends, id, whole, p.End)
	}
	if l.begun && w.shown(p.Start, p.Start) {
		w.out.flow(finishes, arrowRequest, id, p.Start, &k.track)
	}
}

// phase writes a part of a request's lane.
func (w *Writer) phase(id sim.RequestID, name part, from, to sim.Time) {
	if w.shown(from, to) {
		w.open(id)
		w.out.lane(id, name, from, to)
	}
}

// open begins a request's lane. That is written before all that is inside it:
// readers take events of one instant in the order of the file, and what begins
// first is around the others.
func (w *Writer) open(id sim.RequestID) {
	if l := &w.lanes[id]; !l.open {
		l.open = true
		w.out.asynchronous(begins, id, whole, l.arrival)
	}
}

// step leads a request's arrow to a slice that begins at an instant.
func (w *Writer) step(id sim.RequestID, at sim.Time, t *track) {
	if !w.shown(at, at) {
		return
	}
	l := &w.lanes[id]
	kind := steps
	if !l.begun {
		kind, l.begun = starts, true
	}
	w.out.flow(kind, arrowRequest, id, at, t)
}
