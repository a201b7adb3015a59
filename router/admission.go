package router

import (
	"cmp"
	"slices"

	"github.com/replay-llm/replay/sim"
)

// Decision is the outcome of a request before a policy is asked.
type Decision uint8

const (
	Accept Decision = iota // it is routed
	Wait                   // it is held back
	Shed                   // it is turned away
)

func (d Decision) String() string { return [...]string{"accept", "hold", "shed"}[d] }

// Admission decides on requests before a policy is asked.
type Admission interface {
	// Needs returns what the dispatcher must keep for it; always the same, and no Hold
	// and no Gate.
	Needs() Needs
	// Decide returns the decision on q, which may be held already.
	Decide(q *sim.Request, c *Candidates) Decision
}

// admissionQueue has the requests that an Admission holds back: a line for each priority, or for each class if the
// policy orders held requests by class. Of each line the first alone is decided on anew.
type admissionQueue struct {
	lines []line // ascending by kind
	count int
}

// line is the requests of a kind that wait, in the order in which they came.
type line struct {
	kind    int32 // a priority, or a class
	waiting []*sim.Request
	passed  bool // its first has been decided on, and waits
}

// lineOf returns the place of the line of a kind, and whether it is there.
func (l *admissionQueue) lineOf(kind int32) (int, bool) {
	return slices.BinarySearchFunc(l.lines, kind, func(x line, k int32) int { return cmp.Compare(x.kind, k) })
}

// hasLine reports whether requests of a kind wait.
func (l *admissionQueue) hasLine(kind int32) bool {
	i, ok := l.lineOf(kind)
	return ok && len(l.lines[i].waiting) > 0
}

func (l *admissionQueue) push(kind int32, q *sim.Request) {
	i, ok := l.lineOf(kind)
	if !ok {
		l.lines = slices.Insert(l.lines, i, line{kind: kind})
	}
	l.lines[i].waiting = append(l.lines[i].waiting, q)
	l.count++
}

// pop takes the first request of a line off.
func (l *admissionQueue) pop(i int) *sim.Request {
	x := &l.lines[i]
	q := x.waiting[0]
	x.waiting[0] = nil
	x.waiting = x.waiting[1:]
	l.count--
	return q
}

// remove takes a request off wherever it is.
func (l *admissionQueue) remove(id sim.RequestID) {
	for i := range l.lines {
		x := &l.lines[i]
		before := len(x.waiting)
		x.waiting = slices.DeleteFunc(x.waiting, func(q *sim.Request) bool { return q.ID == id })
		l.count -= before - len(x.waiting)
	}
}

// turnedAway is the placement of a request that is shed.
func turnedAway(q *sim.Request) Placement { return Placement{Request: q, Worker: None, Second: None} }

// admit takes in a request by the Admission. One that comes while earlier ones of its line are held
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
	case decision == Wait && !d.isIdle() || d.admissionQueue.hasLine(d.kindOf(q)) || d.isBehind(q):
		d.admissionQueue.push(d.kindOf(q), q)
		d.record.Set(int(q.ID), isHeld)
		return dst, nil
	}
	return d.routeAdmitted(now, q, dst)
}

// isBehind reports whether a more urgent request waits than q, which therefore waits too.
func (d *Dispatcher) isBehind(q *sim.Request) bool {
	if !d.needs.Strict || d.admissionQueue.count == 0 {
		return false
	}
	key := d.keyOf(q)
	return slices.ContainsFunc(d.admissionQueue.lines, func(l line) bool { return len(l.waiting) > 0 && d.keyOf(l.waiting[0]) < key })
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

// isIdle reports whether nothing runs and the policy holds nothing back, so that no later event would bring a new decision on
// waiting requests.
func (d *Dispatcher) isIdle() bool {
	return len(d.records) == len(d.vacant) && len(d.queue.heap) == 0
}

// byClass reports whether the policy orders held requests by class.
func (d *Dispatcher) byClass() bool {
	h := d.needs.Hold
	return h != nil && (h.Order == WFQ || h.Order == EDF)
}

// kindOf returns in which line of the admissionQueue a request waits.
func (d *Dispatcher) kindOf(q *sim.Request) int32 {
	if d.byClass() {
		return q.Class
	}
	return q.Priority
}

// keyOf returns the key of a request that is the first of its line; the line of the least goes first. With
// WFQ it is the start tag that the request would have if it were admitted now.
func (d *Dispatcher) keyOf(q *sim.Request) float64 {
	switch {
	case !d.byClass():
		return float64(q.Priority)
	case d.needs.Hold.Order == EDF:
		return dueOf(d.classes, q)
	}
	return d.fair.startOf(q.Class)
}

// nextLine returns the line with the next request to decide on: of the lines that have not been passed that with the
// least key, of equal keys that with the earliest first request; -1: none.
func (d *Dispatcher) nextLine() int {
	best, key := -1, 0.0
	for i := range d.admissionQueue.lines {
		l := &d.admissionQueue.lines[i]
		if l.passed || len(l.waiting) == 0 {
			continue
		}
		first := l.waiting[0]
		if k := d.keyOf(first); best < 0 || k < key || k == key && first.Arrived < d.admissionQueue.lines[best].waiting[0].Arrived {
			best, key = i, k
		}
	}
	return best
}

// letIn decides anew on the requests that are first in their lines. If nothing runs, the first of them is admitted
// under any rules: nothing would ever change.
func (d *Dispatcher) letIn(now sim.Time, dst []Placement) ([]Placement, error) {
	for i := range d.admissionQueue.lines {
		d.admissionQueue.lines[i].passed = false
	}
	for len(d.workers.ids) > 0 {
		i := d.nextLine()
		if i < 0 {
			break
		}
		decision, err := d.decide(now, d.admissionQueue.lines[i].waiting[0])
		if err != nil {
			return dst, err
		}
		if decision == Wait && !d.isIdle() {
			if d.needs.Strict {
				break
			}
			d.admissionQueue.lines[i].passed = true
			continue
		}
		q := d.admissionQueue.pop(i)
		d.record.Set(int(q.ID), 0)
		if decision == Shed {
			dst = append(dst, turnedAway(q))
			continue
		}
		if dst, err = d.routeAdmitted(now, q, dst); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// waitingInLobby appends the requests of the admissionQueue, line by line, in the order of their first requests.
func (d *Dispatcher) waitingInLobby(dst []sim.RequestID) []sim.RequestID {
	for i := range d.admissionQueue.lines {
		d.admissionQueue.lines[i].passed = false
	}
	for i := d.nextLine(); i >= 0; i = d.nextLine() {
		d.admissionQueue.lines[i].passed = true
		for _, q := range d.admissionQueue.lines[i].waiting {
			dst = append(dst, q.ID)
		}
	}
	return dst
}

// addAdmission adds the facts of an Admission to the needs of a policy.
func (n *Needs) addAdmission(own Needs) {
	n.Running, n.Strict = true, own.Strict
	n.Tokens = n.Tokens || own.Tokens
	if own.Blocks && !n.Blocks { // the policy counts them as it likes
		n.Blocks, n.Shared = true, own.Shared
	}
	n.Overlap, n.Metrics = n.Overlap || own.Overlap, n.Metrics || own.Metrics
}
