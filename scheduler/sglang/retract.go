package sglang

import (
	"cmp"
	"slices"

	"github.com/replay-llm/replay/scheduler"
)

// retractVictims retracts running requests until the next tokens of the others have
// room, and moves the ratio.
func (c *Core) retractVictims(p *scheduler.Pass) {
	c.retired = c.retired[:0]
	if len(c.running) == 0 {
		c.moveRatio(false)
		return
	}
	short := c.isShort()
	if short {
		c.makeRoom()
		p.Preempted = len(c.retired)
		if len(c.retired) > 0 {
			c.joined = slices.DeleteFunc(c.joined, isNotRunning)
			c.fresh = slices.DeleteFunc(c.fresh, isNotRunning)
		}
	}
	c.moveRatio(short)
	if !c.rules.Pages {
		c.evictTokens(len(c.running) - c.free)
	}
}

func isNotRunning(r *request) bool { return r.place == notRunning }

// isShort reports whether the pool lacks room for the next tokens of all running
// requests. By the default rules it evicts to find out.
func (c *Core) isShort() bool {
	growth := c.countCrossing() * c.PageTokens
	if c.rules.Pages {
		c.evictTokens(growth - c.free)
		return c.free < growth
	}
	all := c.free + c.evictableTokens()
	return all < len(c.running) || max(0, all-c.totals.slack)-growth <= 0
}

// makeRoom retracts victims while the pool is short and more than one request
// is left.
func (c *Core) makeRoom() {
	if c.rules.Victims {
		c.sortForRetraction()
	}
	for len(c.running) > 1 {
		c.retractRequest(c.findVictim())
		if !c.isShort() {
			return
		}
	}
	if c.rules.PartialYields && c.partial != nil && c.isShort() {
		r := c.partial
		c.partial = nil
		c.releaseMemory(r)
		c.waiting.PushFront(r)
		c.sorted.valid = false
		c.isShort() // evicts what r has let go
	}
}

// sortForRetraction brings the running requests into the order in which they
// stay longest: most outputs, then shortest prompt.
func (c *Core) sortForRetraction() {
	slices.SortStableFunc(c.running, func(a, b *request) int {
		return cmp.Or(
			cmp.Compare(b.out+c.tokensSince(b), a.out+c.tokensSince(a)),
			cmp.Compare(a.InputTokens, b.InputTokens),
		)
	})
	for i, r := range c.running {
		c.moveTo(r, i)
	}
}

// findVictim returns the running request to retract next.
func (c *Core) findVictim() *request {
	if c.rules.Victims {
		return c.running[len(c.running)-1]
	}
	v, least := c.running[0], c.running[0].out+c.tokensSince(c.running[0])
	for _, r := range c.running[1:] {
		if n := r.out + c.tokensSince(r); n < least {
			v, least = r, n
		}
	}
	return v
}

// retractRequest stops a running request, which keeps its outputs, and frees its
// memory.
func (c *Core) retractRequest(r *request) {
	if c.step > r.joined {
		r.lastToken = c.lastEnd
	}
	c.stopRunning(r)
	c.releaseMemory(r)
	c.retired = append(c.retired, r)
}

// stopRunning takes a running request out of the line, with what it has cached
// put into the tree. It keeps its memory.
func (c *Core) stopRunning(r *request) {
	c.writeGains(r)
	c.subtractTotals(r)
	if r.growing {
		last := c.lastWalkTick(r)
		c.graftGrown(r, r.stored)
		c.tree.stampPath(r.node, last)
	}
	if c.rules.Victims {
		c.closeGaps(r.place)
	} else {
		c.fillPlace(r.place)
	}
	r.place = notRunning
}

// releaseMemory gives back what r, which does not run, holds of the pool and the
// tree.
func (c *Core) releaseMemory(r *request) {
	kept := r.cached
	if c.rules.Release {
		kept = r.prot
	}
	c.free += c.poolTokens(r.stored) - kept
	c.record.released(r, kept)
	c.record.forgotten(r)
	if c.caching {
		c.tree.unlock(r.node)
	}
	r.node, r.stored, r.prot, r.cached = root, 0, 0, 0
}

// moveRatio changes the ratio as the pass asks for.
func (c *Core) moveRatio(short bool) {
	switch {
	case !c.rules.Ratio:
		if len(c.retired) > 0 {
			c.ratio.now = c.ratio.first
		}
		c.ratio.decay()
	case short:
		outputs, asked := 0, 0
		for _, r := range c.running {
			outputs += r.out + c.tokensSince(r)
			asked += max(1, r.maxOut)
		}
		c.ratio.now = min(1.0, float64(outputs+20*len(c.running))/float64(asked+1))
	case len(c.running) > 0:
		c.ratio.decay()
	}
}

// requeueRetired puts the retracted requests back into the queue.
func (c *Core) requeueRetired() {
	if len(c.retired) == 0 {
		return
	}
	c.sorted.valid = false
	if c.rules.Victims {
		for _, r := range c.retired {
			c.waiting.PushBack(r)
		}
		return
	}
	for i := len(c.retired) - 1; i >= 0; i-- {
		c.waiting.PushFront(c.retired[i])
	}
}
