package sglang

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/replay-llm/replay/scheduler"
)

// retractVictims retracts at least one running request, until the next tokens of the remaining requests have room.
// Retracted requests are appended to the queue. The last running request is aborted instead.
func (c *Core) retractVictims(p *scheduler.Pass) {
	c.queue.sortForRetraction()
	for first := true; len(c.batch.running) > 1 && (first || c.batch.isShort()); first = false {
		r := c.batch.running[len(c.batch.running)-1]
		c.loseFlight(r)
		c.batch.stopRunning(r)
		c.batch.running = c.batch.running[:len(c.batch.running)-1]
		c.pages.releasePages(r, false)
		c.pages.evictTokens(len(c.batch.running) * retractSteps)
		c.queue.requeueRequest(r, p)
		if c.decoding.receivesKV() {
			c.retracted = append(c.retracted, r)
		} else {
			c.queue.joinQueue(r)
		}
		c.queue.full = false
	}
	if len(c.batch.running) == 1 && c.batch.isShort() {
		c.abortLast(p)
	}
	c.tiers.lookUpStorage(p.Start)
	gained, asked := 0, 0
	for _, r := range c.batch.running {
		gained += c.batch.gainedBy(r)
		asked += r.maxOut
	}
	c.ratio.estimate(len(c.batch.running), gained, asked)
}

// abortLast aborts the only running request, because its next token has no room. The request's tokens in flight are
// lost.
func (c *Core) abortLast(p *scheduler.Pass) {
	r := c.batch.running[0]
	p.Aborted = append(p.Aborted, scheduler.Abort{Request: r.ID, Tokens: c.batch.gainedBy(r), Last: c.lastTokenOf(r), Reason: c.describeAbort(r)})
	p.Admitted = slices.DeleteFunc(p.Admitted, func(a scheduler.Admission) bool { return a.Request == r.ID }) // the prompt of r is in flight
	c.loseFlight(r)
	c.batch.stopRunning(r)
	c.batch.running = c.batch.running[:0]
	c.pages.releasePages(r, false)
	c.queue.full = false
	c.forgetRequest(r)
}

// describeAbort returns the reason why r is aborted.
func (c *Core) describeAbort(r *request) string {
	all := fmt.Sprintf("SGLang aborts it after %d tokens: no other request is left to retract and its next token has no room: %d of %d tokens are free",
		c.batch.gainedBy(r), c.pages.free, c.pages.pool)
	if c.Window > 0 {
		all += fmt.Sprintf(", %d of %d for layers with a window", c.win.free, c.win.pool)
	}
	return all
}

// restAborted makes p a pass of zero length, because nothing can run after an abort.
func (c *Core) restAborted(p *scheduler.Pass) {
	p.Nanos = append(p.Nanos, 0)
	if c.tiers != nil {
		c.tiers.recordTransfers(p)
	}
	c.describeState(p)
	c.check()
}

// sortForRetraction sorts the running requests; requests are retracted from the end. With Priorities.Retract the most
// urgent are first, then the requests with the most output, then the shortest prompts.
func (u *queue) sortForRetraction() {
	slices.SortStableFunc(u.core.batch.running, func(a, b *request) int {
		order := cmp.Or(cmp.Compare(u.core.batch.gainedBy(b), u.core.batch.gainedBy(a)), cmp.Compare(a.InputTokens, b.InputTokens))
		if u.core.Priorities.Retract {
			return cmp.Or(cmp.Compare(u.urgency(a), u.urgency(b)), order)
		}
		return order
	})
	for i, r := range u.core.batch.running {
		r.place = i
	}
}

// loseFlight records that the token of r in the pass in flight is lost, because r stops running.
func (c *Core) loseFlight(r *request) {
	if c.next.decodes > 0 && r.base < c.batch.planned {
		c.next.lost++
	}
}

// requeueRequest resets r, which has no memory any more, to a waiting request.
func (u *queue) requeueRequest(r *request, p *scheduler.Pass) {
	r.epoch++
	r.found = 0
	r.resumed, r.queuedAt = true, u.counted.sum
	p.Preempted++
	if p.Detail != nil {
		p.Detail.Lost = append(p.Detail.Lost, r.ID)
	}
}
