package sglang

import (
	"cmp"
	"slices"

	"github.com/replay-llm/replay/scheduler"
)

// Priorities configures the use of sim.Request.Priority. The zero value ignores priorities.
type Priorities struct {
	On        bool // the most urgent requests are admitted first, then by FIFO or LOF; not supported with other policies
	LowFirst  bool // low values are urgent; if not set, high values are
	Preempt   bool // urgent requests preempt running requests
	Threshold int  // preemption requires a difference of priorities above this value, >= 0
	Retract   bool // if memory is short, the least urgent requests are retracted, then the shortest
}

// urgency returns a sort key for the priority of r; the most urgent request has the lowest key.
func (u *queue) urgency(r *request) int64 {
	if u.core.Priorities.LowFirst {
		return int64(r.Priority)
	}
	return -int64(r.Priority)
}

// comparePriority compares the order of two requests in the queue by priority.
func (u *queue) comparePriority(a, b *request) int {
	switch {
	case !u.core.Priorities.On:
		return 0
	case u.core.Policy == LOF:
		return cmp.Compare(u.urgency(a), u.urgency(b))
	}
	return cmp.Or(cmp.Compare(u.urgency(a), u.urgency(b)), cmp.Compare(a.joined, b.joined))
}

// joinQueue appends r to the queue.
func (u *queue) joinQueue(r *request) {
	u.joins++
	r.joined, r.queuedAt = u.joins, u.counted.sum
	u.waiting.PushBack(r)
	u.core.tiers.noteJoin(r)
}

// preemptFor preempts running requests that are less urgent than r, the head of the queue, and reports whether it
// did. preemptFor uses the need of r at its latest lookup. Before the first lookup the need counts no prompt tokens.
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

// dropVictim stops a running request and releases its memory. The last argument is the number of requests that still
// run. dropVictim leaves a gap in the list of running requests.
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

// requeueVictims appends preempted requests to the queue.
func (u *queue) requeueVictims(p *scheduler.Pass) {
	for _, r := range u.victims {
		u.requeueRequest(r, p)
		u.joinQueue(r)
	}
	u.victims = u.victims[:0]
	u.core.tiers.lookUpStorage(p.Start)
}
