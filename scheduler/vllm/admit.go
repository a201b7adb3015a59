package vllm

import (
	"github.com/replay-llm/replay/scheduler"
)

// planWaiting admits requests from the head of the queue.
func (c *Core) planWaiting(p *pass) {
	p.ran = len(p.flight.shares)
	for c.waiting.Len() > 0 && !c.cfg.IsFull(len(c.running)+c.apart.gone) && p.lost == 0 {
		if p.budget == 0 && c.rules.BudgetGate || !c.admitHead(p) {
			return
		}
	}
}

// admitHead admits the head of the queue and plans its first chunk if there is room for it. admitHead returns false
// if planWaiting must stop.
func (c *Core) admitHead(p *pass) bool {
	s := c.waiting.Front()
	hits := c.pool.Cached(s)
	if hits > 0 && c.drafts.recomputesHit() {
		hits--
	}
	return c.admitRequest(p, s, hits, min(hits<<c.shift, c.findableTokens(&c.requests[s])))
}

// admitRequest admits s like admitHead. The first hits blocks of s are cached; cached is the number of tokens of
// these blocks to reuse.
func (c *Core) admitRequest(p *pass, s slot, hits, cached int) bool {
	r := &c.requests[s]
	want := r.target - cached
	if p.shut && want > 1 {
		return false
	}
	prompt := want > 1
	if want == 1 && c.drafts.padsDrafts(p, cached) && !c.drafts.padsTooFar(cached) {
		if want += c.cfg.Speculation.Tokens; want > p.budget-c.drafts.draftSlots {
			return false
		}
	}
	if p.limit > 0 {
		want = min(want, p.limit)
	}
	if want > p.budget-c.drafts.draftSlots && !c.cfg.ChunkedPrefill {
		return false
	}
	want = min(want, p.budget-c.drafts.draftSlots)
	if want == 0 && cached < r.target {
		return false
	}
	if c.rules.AdmitIdle && !c.hasRoom(r, hits, cached+want) {
		return false
	}
	c.pool.holdHits(r, hits)
	for !c.allocBlocks(r, cached+want) {
		if len(c.running) == 0 {
			c.pool.stripBlocks(r)
			return false
		}
		c.preemptVictim(p)
	}
	c.waiting.Remove(s)
	again := r.state == preempted
	r.state, r.computed = running, cached
	c.running = append(c.running, s)
	c.calm.lively = append(c.calm.lively, s)
	c.admitted++
	r.order = c.admitted
	p.out.Admitted = append(p.out.Admitted, scheduler.Admission{
		Request: r.id, Again: again, Reused: min(cached, r.input), FromHost: c.pool.FromHost(s, cached),
	})
	r.midway = prompt // scheduleTokens sets midway again
	c.scheduleTokens(p, s, want)
	return !(want == 0 && p.budget == 0)
}

// findableTokens returns the maximum number of tokens of r that a lookup may find in the cache.
func (c *Core) findableTokens(r *request) int {
	if c.rules.RecomputeLast {
		return r.target - 1
	}
	return r.input
}

// findableBlocks returns the maximum number of blocks of r that a lookup may find in the cache.
func (c *Core) findableBlocks(r *request) int {
	most := c.findableTokens(r)
	switch {
	case !c.cfg.PrefixCaching:
		return 0
	case c.rules.RecomputeLast:
		return most >> c.shift
	}
	return (most + c.mask) >> c.shift
}

// hasRoom reports whether there is room to admit r, with its first hits blocks cached and the given number of its
// tokens computed. With ReserveWhole, all tokens of r must fit.
func (c *Core) hasRoom(r *request, hits, tokens int) bool {
	whole := 0
	if c.rules.ReserveWhole {
		whole = (r.target + c.mask) >> c.shift
	}
	free := c.supply.free
	if w := c.rules.Watermark; w > 0 && len(c.running)+c.apart.gone > 0 {
		free -= int(w * float64(c.cfg.Blocks))
	}
	chunk := c.blocksFor(r, c.drafts.addLookahead(r, tokens))
	return c.pool.hasRoom(r, hits, chunk, whole, free)
}
