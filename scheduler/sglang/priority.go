package sglang

import (
	"cmp"
	"slices"

	"github.com/replay-llm/replay/scheduler"
)

// Priorities is what sim.Request.Priority decides; nothing in its zero value.
type Priorities struct {
	On        bool // the most urgent are tried first, then as FIFO or LOF has it; other policies have no priorities
	LowFirst  bool // small values are urgent; otherwise large ones
	Preempt   bool // running requests lose their places to urgent ones
	Threshold int  // by more than this the values differ then, >= 0
	Retract   bool // where memory is short the least urgent are retracted, then the shortest
}

// urgency orders requests by priority, the most urgent first.
func (u *queue) urgency(r *request) int64 {
	if u.core.Priorities.LowFirst {
		return int64(r.Priority)
	}
	return -int64(r.Priority)
}

// comparePriority compares where requests stand in line by priority.
func (u *queue) comparePriority(a, b *request) int {
	switch {
	case !u.core.Priorities.On:
		return 0
	case u.core.Policy == LOF:
		return cmp.Compare(u.urgency(a), u.urgency(b))
	}
	return cmp.Or(cmp.Compare(u.urgency(a), u.urgency(b)), cmp.Compare(a.joined, b.joined))
}

// joinQueue puts r at the back of the queue.
func (u *queue) joinQueue(r *request) {
	u.joins++
	r.joined, r.queuedAt = u.joins, u.counted.sum
	u.waiting.PushBack(r)
	u.core.tiers.noteJoin(r)
}

// preemptFor takes places and memory from running requests that are less urgent than r, the
// head of the queue, and reports whether it has. It counts with what r needed when it was
// last looked up, and with nothing of its prompt before.
func (u *queue) preemptFor(r *request, b *budget) bool {
	if !u.core.Priorities.Preempt {
		return false
	}
	u.ranked = append(u.ranked[:0], u.core.batch.running...)
	slices.SortFunc(u.ranked, func(x, y *request) int {
		return cmp.Or(cmp.Compare(u.urgency(y), u.urgency(x)), cmp.Compare(y.joined, x.joined))
	})
	missing := float64(r.looked-r.found+min(r.maxOut, u.core.ClipNewTokens)) - u.core.memoryLeft(b)
	n := 0
	for n == 0 || missing > 0 {
		if n == len(u.ranked) || u.urgency(u.ranked[n])-u.urgency(r) <= int64(u.core.Priorities.Threshold) {
			return false
		}
		missing -= u.core.reservedFor(u.ranked[n], b)
		n++
	}
	first, left := len(u.victims), len(u.core.batch.running)
	u.victims = append(u.victims, u.ranked[:n]...)
	for _, v := range u.core.batch.running {
		if slices.Contains(u.victims[first:], v) {
			left--
			b.reserved -= u.core.reservedFor(v, b)
			u.dropVictim(v, left)
		}
	}
	u.core.batch.closeGaps()
	return true
}

// dropVictim takes a running request's place and memory, while the given number of other requests
// stay. It leaves a gap in the line.
func (u *queue) dropVictim(r *request, others int) {
	u.core.loseFlight(r)
	u.core.batch.stopRunning(r)
	if r.ending {
		r.ending = false
		u.core.batch.ending = slices.DeleteFunc(u.core.batch.ending, func(e *request) bool { return e == r })
	}
	u.core.pages.releasePages(r, false)
	u.core.pages.evictTokens(others * retractSteps)
}

// requeueVictims queues preempted requests at the back.
func (u *queue) requeueVictims(p *scheduler.Pass) {
	for _, r := range u.victims {
		u.requeueRequest(r, p)
		u.joinQueue(r)
	}
	u.victims = u.victims[:0]
	u.core.tiers.askStorage(p.Start)
}
