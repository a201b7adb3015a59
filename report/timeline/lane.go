package timeline

import (
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// lane is the track of a request, with the state of its arrow.
type lane struct {
	arrival sim.Time
	left    sim.Time // its latest worker before the last token, if it did
	stays   [2]stay
	hidden  bool // the cut leaves it out
	handed  bool // its KV cache has left the prefill worker
	begun   bool // its first arrow has begun
	local   bool // its first stage is decode
	open    bool // the event that begins it is written
}

// stay is the time of a request at a stage.
type stay struct {
	routed, admit, first sim.Time
	admitted, token      bool
}

func (l *lane) stageOf(s scheduler.Role) *stay { return &l.stays[s.Stage()] }

// Left ends the time of a request that leaves its worker before its last token. If the request does not return, Left
// also ends its lane.
func (w *Writer) Left(d *harness.Departure) {
	l := &w.lanes[d.Request]
	if l.hidden {
		return
	}
	if s := l.stageOf(d.Stage); d.Worker != collector.Nowhere {
		w.workerOf(d.Stage, d.Worker).watched--
		switch {
		case s.token && d.At > s.first:
			w.writePhase(d.Request, decode, s.first, d.At)
		case s.admitted && !s.token:
			w.writePhase(d.Request, prefill, s.admit, d.At)
		}
	}
	l.stays, l.handed, l.left = [2]stay{}, false, d.At
	if !w.isShown(d.At, d.At) {
		return
	}
	w.openLane(d.Request)
	w.out.writeAsync(happens, d.Request, losesPlace, d.At)
	if d.Outcome != collector.Unfinished {
		w.out.writeAsync(ends, d.Request, whole, d.At)
	}
}

// followRequests updates the lanes of the requests in a pass.
func (w *Writer) followRequests(stage scheduler.Role, k *worker, p *scheduler.Pass) {
	for i := range p.Admitted {
		w.endWait(stage, k, p.Admitted[i].Request, p.Start)
	}
	if p.Detail != nil {
		for _, id := range p.Detail.Lost {
			if !w.lanes[id].hidden && w.isShown(p.Start, p.Start) {
				w.openLane(id)
				w.out.writeAsync(happens, id, losesPlace, p.Start)
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
			w.endPrefill(stage, m.Request, p.End)
		}
		if m.Last {
			k.watched--
			w.endStage(stage, k, m.Request, p)
		}
	}
}

// endWait ends the wait of a request. The arrow of the request continues to its first pass.
func (w *Writer) endWait(stage scheduler.Role, k *worker, id sim.RequestID, at sim.Time) {
	l := &w.lanes[id]
	s := l.stageOf(stage)
	if l.hidden || s.admitted {
		return
	}
	s.admit, s.admitted = at, true
	if stage == scheduler.Decode && !l.local {
		w.writePhase(id, waitForDecode, s.routed, at)
	} else {
		w.writePhase(id, wait, max(l.arrival, l.left), at)
	}
	w.stepArrow(id, at, &k.track)
	if l.handed && w.isShown(at, at) {
		w.out.writeFlow(handoffFinishes, id, at, &k.track)
	}
}

// endPrefill ends the prefill of a request.
func (w *Writer) endPrefill(stage scheduler.Role, id sim.RequestID, at sim.Time) {
	s := w.lanes[id].stageOf(stage)
	s.first, s.token = at, true
	w.writePhase(id, prefill, s.admit, at)
}

// endStage ends the time of a request at a stage. Arrows start at the pass that generated the last token.
func (w *Writer) endStage(stage scheduler.Role, k *worker, id sim.RequestID, p *scheduler.Pass) {
	l := &w.lanes[id]
	s := l.stageOf(stage)
	if s.token && p.End > s.first {
		w.writePhase(id, decode, s.first, p.End)
	}
	if stage == scheduler.Prefill {
		if p.Start != s.admit { // otherwise the arrow is already at this slice
			w.stepArrow(id, p.Start, &k.track)
		}
		if w.isShown(p.Start, p.Start) {
			w.out.writeFlow(handoffStarts, id, p.Start, &k.track)
		}
		return
	}
	if w.isShown(l.arrival, p.End) {
		w.openLane(id)
		w.out.writeAsync(ends, id, whole, p.End)
	}
	if l.begun && w.isShown(p.Start, p.Start) {
		w.out.writeFlow(requestFinishes, id, p.Start, &k.track)
	}
}

// writePhase writes a part of a request's lane.
func (w *Writer) writePhase(id sim.RequestID, part string, from, to sim.Time) {
	if w.isShown(from, to) {
		w.openLane(id)
		w.out.writeAsync(begins, id, part, from)
		w.out.writeAsync(ends, id, part, to)
	}
}

// openLane begins the lane of a request. openLane writes the outer slice before the slices in it, since readers take
// events with equal times in the order of the file.
func (w *Writer) openLane(id sim.RequestID) {
	if l := &w.lanes[id]; !l.open {
		l.open = true
		w.out.writeAsync(begins, id, whole, l.arrival)
	}
}

// stepArrow leads the arrow of a request to a slice that begins at the given time.
func (w *Writer) stepArrow(id sim.RequestID, at sim.Time, t *track) {
	if !w.isShown(at, at) {
		return
	}
	l := &w.lanes[id]
	end := requestSteps
	if !l.begun {
		end, l.begun = requestStarts, true
	}
	w.out.writeFlow(end, id, at, t)
}
