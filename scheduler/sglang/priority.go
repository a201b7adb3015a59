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
func (c *Core) urgency(r *request) int64 {
	if c.Priorities.LowFirst {
		return int64(r.Priority)
	}
	return -int64(r.Priority)
}

// comparePriority compares where requests stand in line by priority.
func (c *Core) comparePriority(a, b *request) int {
	switch {
	case !c.Priorities.On:
		return 0
	case c.Policy == LOF:
		return cmp.Compare(c.urgency(a), c.urgency(b))
	}
	return cmp.Or(cmp.Compare(c.urgency(a), c.urgency(b)), cmp.Compare(a.joined, b.joined))
}

// joinQueue puts r at the back of the queue.
func (c *Core) joinQueue(r *request) {
	c.joins++
	r.joined, r.queuedAt = c.joins, c.counted.sum
	c.waiting.PushBack(r)
	c.tiers.noteJoin(r)
}

// preemptFor takes places and memory from running requests that are less urgent than r, the
// head of the queue, and reports whether it has. It counts with what r needed when it was
// last looked up, and with nothing of its prompt before.
func (c *Core) preemptFor(r *request, b *budget) bool {
	if !c.Priorities.Preempt {
		return false
	}
	c.ranked = append(c.ranked[:0], c.running...)
	slices.SortFunc(c.ranked, func(x, y *request) int {
		return cmp.Or(cmp.Compare(c.urgency(y), c.urgency(x)), cmp.Compare(y.joined, x.joined))
	})
	missing := float64(r.looked-r.found+min(r.maxOut, c.ClipNewTokens)) - c.memoryLeft(b)
	n := 0
	for n == 0 || missing > 0 {
		if n == len(c.ranked) || c.urgency(c.ranked[n])-c.urgency(r) <= int64(c.Priorities.Threshold) {
			return false
		}
		missing -= c.reservedFor(c.ranked[n], b)
		n++
	}
	first, left := len(c.victims), len(c.running)
	c.victims = append(c.victims, c.ranked[:n]...)
	for _, v := range c.running {
		if slices.Contains(c.victims[first:], v) {
			left--
			b.reserved -= c.reservedFor(v, b)
			c.dropVictim(v, left)
		}
	}
	c.closeGaps()
	return true
}

// dropVictim takes a running request's place and memory, while the given number of others
// stay. It leaves a gap in the line.
func (c *Core) dropVictim(r *request, others int) {
	c.loseFlight(r)
	c.stopRunning(r)
	if r.ending {
		r.ending = false
		c.ending = slices.DeleteFunc(c.ending, func(e *request) bool { return e == r })
	}
	c.releasePages(r, false)
	c.evictTokens(others * retractSteps)
}

// requeueVictims lets those wait who were preempted, at the back.
func (c *Core) requeueVictims(p *scheduler.Pass) {
	for _, r := range c.victims {
		c.requeueRequest(r, p)
		c.joinQueue(r)
	}
	c.victims = c.victims[:0]
	c.askStorage(p.Start)
}
