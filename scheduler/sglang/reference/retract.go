package reference

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang/radix"
)

// retractVictims retracts running requests until the next tokens of the remaining requests have room, and updates the
// ratio.
func (c *Core) retractVictims(p *scheduler.Pass) {
	c.retired = c.retired[:0]
	if len(c.running) == 0 {
		c.moveRatio()
		return
	}
	if c.isShort() {
		c.makeRoom()
		p.Preempted = len(c.retired)
		if len(c.retired) > 0 {
			c.joined = slices.DeleteFunc(c.joined, isNotRunning)
			c.fresh = slices.DeleteFunc(c.fresh, isNotRunning)
		}
	}
	c.moveRatio()
	c.evictTokens(len(c.running) - c.free)
}

func isNotRunning(r *request) bool { return r.place == notRunning }

// isShort reports whether the pool lacks room for the next tokens of all running
// requests.
func (c *Core) isShort() bool {
	growth := c.countCrossing() * c.PageTokens
	all := c.free + c.evictableTokens()
	return all < len(c.running) || max(0, all-c.totals.slack)-growth <= 0
}

// makeRoom retracts requests while the pool is short and more than one request runs.
func (c *Core) makeRoom() {
	for len(c.running) > 1 {
		c.retractRequest(c.findVictim())
		if !c.isShort() {
			return
		}
	}
}

// findVictim returns the running request to retract next: the first with the fewest output tokens.
func (c *Core) findVictim() *request {
	v, least := c.running[0], c.running[0].out+c.tokensSince(c.running[0])
	for _, r := range c.running[1:] {
		if n := r.out + c.tokensSince(r); n < least {
			v, least = r, n
		}
	}
	return v
}

// retractRequest stops a running request and frees its memory. The request keeps its outputs.
func (c *Core) retractRequest(r *request) {
	if c.step > r.joined {
		r.lastToken = c.lastEnd
	}
	c.stopRunning(r)
	c.releaseMemory(r)
	c.retired = append(c.retired, r)
}

// stopRunning removes a request from the running requests and adds its cached pages to the tree. The request keeps
// its memory.
func (c *Core) stopRunning(r *request) {
	c.writeGains(r)
	c.subtractTotals(r)
	if r.growing {
		last := c.lastWalkTick(r)
		c.graftGrown(r, r.stored)
		c.tree.StampPath(r.node, last)
	}
	c.fillPlace(r.place)
	r.place = notRunning
}

// releaseMemory releases the memory of r, which does not run, in the pool and the tree.
func (c *Core) releaseMemory(r *request) {
	kept := r.cached
	c.free += r.stored - kept
	c.record.released(r, kept)
	c.record.forgotten(r)
	c.tree.Unlock(r.node)
	r.node, r.stored, r.prot, r.cached = radix.Root, 0, 0, 0
}

// moveRatio resets the ratio after retractions, and decreases it by one step.
func (c *Core) moveRatio() {
	if len(c.retired) > 0 {
		c.ratio.now = c.ratio.first
	}
	c.ratio.decay()
}

// requeueRetired moves the retracted requests to the front of the queue.
func (c *Core) requeueRetired() {
	if len(c.retired) == 0 {
		return
	}
	c.sorted.valid = false
	for i := len(c.retired) - 1; i >= 0; i-- {
		c.waiting.PushFront(c.retired[i])
	}
}
