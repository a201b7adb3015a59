package router

import (
	"cmp"
	"slices"

	"github.com/replay-llm/replay/sim"
)

// Decision is the decision on a request before its policy chooses a worker.
type Decision uint8

const (
	Accept Decision = iota // the request is routed
	Wait                   // the request is held
	Shed                   // the request is rejected
)

func (d Decision) String() string { return [...]string{"accept", "hold", "shed"}[d] }

// Admission decides on requests before a policy chooses.
type Admission interface {
	// Needs returns the facts that the dispatcher must keep for it. The result is constant and has neither Hold nor
	// Gate.
	Needs() Needs
	// Decide returns the decision on q, which may be held already.
	Decide(q *sim.Request, c *Candidates) Decision
}

// admissionQueue is the requests that an Admission holds. admissionQueue has a line for each priority, or for each
// class if the policy orders held requests by class. Only the first request of a line is decided on again.
type admissionQueue struct {
	lines []line // ascending by kind
	count int
}

// line is the held requests of one kind, in order of arrival.
type line struct {
	kind    int32 // a priority, or a class
	waiting []*sim.Request
	passed  bool // its first request was decided on in this round, and stays held
}

// lineOf returns the index of the line of a kind, and whether the line exists.
func (l *admissionQueue) lineOf(kind int32) (int, bool) {
	return slices.BinarySearchFunc(l.lines, kind, func(x line, k int32) int { return cmp.Compare(x.kind, k) })
}

// hasLine reports whether requests of a kind are held.
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

// pop removes and returns the first request of a line.
func (l *admissionQueue) pop(i int) *sim.Request {
	x := &l.lines[i]
	q := x.waiting[0]
	x.waiting[0] = nil
	x.waiting = x.waiting[1:]
	l.count--
	return q
}

// remove removes a request from its line.
func (l *admissionQueue) remove(id sim.RequestID) {
	for i := range l.lines {
		x := &l.lines[i]
		before := len(x.waiting)
		x.waiting = slices.DeleteFunc(x.waiting, func(q *sim.Request) bool { return q.ID == id })
		l.count -= before - len(x.waiting)
	}
}

// turnedAway returns the placement of a request that is shed.
func turnedAway(q *sim.Request) Placement { return Placement{Request: q, Worker: None, Second: None} }

// admit routes, holds or sheds a request by the decision of the Admission. While earlier requests of its line are
// held, the request is held behind them or shed.
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

// isBehind reports whether a more urgent request is held and the Admission is Strict, so that q must wait.
func (d *Dispatcher) isBehind(q *sim.Request) bool {
	if !d.needs.Strict || d.admissionQueue.count == 0 {
		return false
	}
	key := d.keyOf(q)
	return slices.ContainsFunc(d.admissionQueue.lines, func(l line) bool { return len(l.waiting) > 0 && d.keyOf(l.waiting[0]) < key })
}

// decide returns the decision of the Admission.
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

// isIdle reports whether no request runs and the policy holds none. No later event would then cause a new decision on
// held requests.
func (d *Dispatcher) isIdle() bool {
	return len(d.records) == len(d.vacant) && len(d.queue.heap) == 0
}

// byClass reports whether the policy orders held requests by class.
func (d *Dispatcher) byClass() bool {
	h := d.needs.Hold
	return h != nil && (h.Order == WFQ || h.Order == EDF)
}

// kindOf returns the kind of line in which q waits.
func (d *Dispatcher) kindOf(q *sim.Request) int32 {
	if d.byClass() {
		return q.Class
	}
	return q.Priority
}

// keyOf returns the key of the first request of a line. The line with the smallest key is first. With WFQ, the key is
// the start tag that the request would get if it were admitted now.
func (d *Dispatcher) keyOf(q *sim.Request) float64 {
	switch {
	case !d.byClass():
		return float64(q.Priority)
	case d.needs.Hold.Order == EDF:
		return dueOf(d.classes, q)
	}
	return d.fair.startOf(q.Class)
}

// nextLine returns the index of the line with the next request to decide on, -1 if there is none. The next line has
// the smallest key among the lines not passed in this round. Among equal keys, the next line has the earliest first
// request.
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

// admitHeld decides again on the first requests of the lines. If no request runs, admitHeld admits the first request
// regardless of the Admission, because no later event would change the decision.
func (d *Dispatcher) admitHeld(now sim.Time, dst []Placement) ([]Placement, error) {
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

// appendHeld appends the requests of the admissionQueue, line by line. The lines are in the order of their first
// requests.
func (d *Dispatcher) appendHeld(dst []sim.RequestID) []sim.RequestID {
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

// addAdmission adds the needs of an Admission to the needs of a policy.
func (n *Needs) addAdmission(own Needs) {
	n.Running, n.Strict = true, own.Strict
	n.Tokens = n.Tokens || own.Tokens
	if own.Blocks && !n.Blocks { // the policy decides how blocks are counted
		n.Blocks, n.Shared = true, own.Shared
	}
	n.Overlap, n.Metrics = n.Overlap || own.Overlap, n.Metrics || own.Metrics
}
