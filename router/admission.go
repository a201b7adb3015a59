package router

import (
	"cmp"
	"slices"

	"github.com/replay-llm/replay/sim"
)

// Decision is what becomes of a request before a policy is asked.
type Decision uint8

const (
	Accept Decision = iota // it is routed
	Wait                   // it is held back
	Shed                   // it is turned away
)

func (d Decision) String() string { return [...]string{"accept", "hold", "shed"}[d] }

// ParseDecision returns the decision of that name; ok reports whether there is one.
func ParseDecision(name string) (d Decision, ok bool) {
	for d := Accept; d <= Shed; d++ {
		if d.String() == name {
			return d, true
		}
	}
	return 0, false
}

// Admission decides what becomes of requests before a policy is asked.
type Admission interface {
	// Needs returns what the dispatcher has to keep for it; always the same, and no Hold
	// and no Gate.
	Needs() Needs
	// Decide returns what becomes of q, which may be held already.
	Decide(q *sim.Request, c *Candidates) Decision
}

// lobby is where requests wait that an Admission holds back: in a line for each priority, the least first.
// Of each line the first alone is decided on anew.
type lobby struct {
	lines []line
	count int
}

// line is the requests of a priority that wait, in the order in which they came.
type line struct {
	priority int32
	waiting  []*sim.Request
}

// lineOf returns the place of the line of a priority, and whether it is there.
func (l *lobby) lineOf(priority int32) (int, bool) {
	return slices.BinarySearchFunc(l.lines, priority, func(x line, p int32) int { return cmp.Compare(x.priority, p) })
}

// hasLine reports whether requests of a priority wait.
func (l *lobby) hasLine(priority int32) bool {
	i, ok := l.lineOf(priority)
	return ok && len(l.lines[i].waiting) > 0
}

func (l *lobby) push(q *sim.Request) {
	i, ok := l.lineOf(q.Priority)
	if !ok {
		l.lines = slices.Insert(l.lines, i, line{priority: q.Priority})
	}
	l.lines[i].waiting = append(l.lines[i].waiting, q)
	l.count++
}

// pop takes the first request of a line off.
func (l *lobby) pop(i int) *sim.Request {
	x := &l.lines[i]
	q := x.waiting[0]
	x.waiting[0] = nil
	x.waiting = x.waiting[1:]
	l.count--
	return q
}

// remove takes a request off wherever it is.
func (l *lobby) remove(id sim.RequestID) {
	for i := range l.lines {
		x := &l.lines[i]
		before := len(x.waiting)
		x.waiting = slices.DeleteFunc(x.waiting, func(q *sim.Request) bool { return q.ID == id })
		l.count -= before - len(x.waiting)
	}
}

// turnedAway is the placement of a request that is shed.
func turnedAway(q *sim.Request) Placement { return Placement{Request: q, Worker: None, Second: None} }

// admit takes in a request by the Admission. One that comes while others of its priority are held
// waits behind them, unless it is shed.
func (d *Dispatcher) admit(now sim.Time, q *sim.Request, dst []Placement) ([]Placement, error) {
	if len(d.workers.ids) == 0 {
		return d.routeAdmitted(now, q, dst)
	}
	decision, err := d.decide(now, q)
	switch {
	case err != nil:
		return dst, err
	case decision == Shed:
		return append(dst, turnedAway(q)), nil
	case decision == Wait && !d.isIdle() || d.lobby.hasLine(q.Priority):
		d.lobby.push(q)
		d.record[q.ID] = isHeld
		return dst, nil
	}
	return d.routeAdmitted(now, q, dst)
}

// decide asks the Admission.
func (d *Dispatcher) decide(now sim.Time, q *sim.Request) (Decision, error) {
	d.seen.Queued = d.Queued()
	d.readSignals(now)
	if err := d.matchCaches(now, q); err != nil {
		return Accept, err
	}
	d.matchActive(q)
	decision := d.admission.Decide(q, d.view())
	d.overlap.clear()
	d.active.clear()
	return decision, nil
}

// isIdle reports whether nothing runs and the policy holds nothing back, so that nobody who
// waits would be decided on anew.
func (d *Dispatcher) isIdle() bool {
	return len(d.records) == len(d.vacant) && len(d.queue.heap) == 0
}

// letIn decides anew on the requests that are first in their lines. Where nothing runs, the first of
// them is let in whatever is decided: nothing would ever change.
func (d *Dispatcher) letIn(now sim.Time, dst []Placement) ([]Placement, error) {
	var err error
	for i := 0; i < len(d.lobby.lines) && err == nil; {
		if len(d.lobby.lines[i].waiting) == 0 || len(d.workers.ids) == 0 {
			i++
			continue
		}
		var decision Decision
		if decision, err = d.decide(now, d.lobby.lines[i].waiting[0]); err != nil {
			break
		}
		if decision == Wait && !d.isIdle() {
			i++
			continue
		}
		q := d.lobby.pop(i)
		d.record[q.ID] = 0
		if decision == Shed {
			dst = append(dst, turnedAway(q))
			continue
		}
		dst, err = d.routeAdmitted(now, q, dst)
	}
	return dst, err
}

// addAdmission adds what an Admission needs to what a policy does.
func (n *Needs) addAdmission(own Needs) {
	n.Running = true
	n.Tokens = n.Tokens || own.Tokens
	if own.Blocks && !n.Blocks { // the policy counts them as it likes
		n.Blocks, n.Shared = true, own.Shared
	}
	n.Overlap, n.Metrics = n.Overlap || own.Overlap, n.Metrics || own.Metrics
}
