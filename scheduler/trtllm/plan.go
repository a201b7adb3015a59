package trtllm

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
)

// planPass plans a pass from the current state, and allocates its blocks. planPass returns true if the plan is empty
// and should be repeated because it has paused requests.
func (c *Core) planPass(f *flight, p *scheduler.Pass) (again bool) {
	f.clear()
	c.pool.now = p.Start
	c.releaseSent(p.Start)
	c.fetch()
	if c.running || c.gate == nil {
		c.admitArrived(p)
	}
	c.choose()
	c.failed, c.short = c.failed[:0], 0
	c.batch(f)
	c.waitForBatch(f)
	if c.gate != nil && !c.gate.open {
		f.ctx = f.ctx[:0]
	}
	for _, r := range c.chosen.paused {
		c.pool.close(r)
		r.victim = true
		p.Preempted++
		if p.Detail != nil {
			p.Detail.Lost = append(p.Detail.Lost, r.ID)
		}
	}
	c.abortFailed(p)
	c.launch(f)
	f.ready = c.pool.host.moveBlocks(&c.Config, p)
	if f.planned = len(f.ctx)+len(f.gen) > 0; f.planned {
		c.pool.expire()
	}
	return !f.planned && len(c.chosen.paused) > 0
}

// fetch moves waiting requests to the active requests, up to MaxBatch.
func (c *Core) fetch() {
	if c.onFetch != nil {
		c.onFetch()
	}
	for len(c.active) < c.MaxBatch && c.line.Len() > 0 {
		c.active = append(c.active, c.line.Front())
		c.line.PopFront()
	}
}

// abortFailed aborts requests with a prompt that has become longer than a pass because of a pause.
func (c *Core) abortFailed(p *scheduler.Pass) {
	for _, r := range c.failed {
		p.Aborted = append(p.Aborted, scheduler.Abort{
			Request: r.ID, Tokens: r.given(), Last: r.lastAt,
			Reason: "its prompt and answer so far exceed max_num_tokens, and enable_chunked_prefill is off",
		})
		r.state = done
		c.pool.close(r)
		c.forget(r)
	}
	if len(c.failed) > 0 {
		c.active = slices.DeleteFunc(c.active, func(r *request) bool { return r.state == done && slices.Contains(c.failed, r) })
	}
}

// forget releases a request that has no blocks any more.
func (c *Core) forget(r *request) {
	c.recycle(r)
	c.live--
}

// recycle keeps the memory of a request for reuse.
func (c *Core) recycle(r *request) { c.gone[0] = append(c.gone[0], r) }

// launch allocates the blocks of a pass. launch removes requests without enough blocks from the pass.
func (c *Core) launch(f *flight) {
	c.claimed = c.claimed[:0]
	if c.Reuse && c.ClaimFirst && (len(f.ctx) > 1 || c.Host.Blocks > 0) { // a single request holds its prefix before it allocates blocks
		for i := range f.ctx {
			if r := f.ctx[i].request; r.isFirstChunk() && r.blocks == 0 {
				c.claim(r)
			}
		}
	}
	kept := f.ctx[:0]
	for i := range f.ctx {
		v := f.ctx[i]
		if v.isFirstChunk() && v.slots == 0 {
			if !c.hasRoom(v.request) {
				c.short++
				continue
			}
			v.again = v.pauses > 0
			c.pool.allocate(v.request)
			v.first, v.reused = true, v.found
		}
		v.before, v.tokens = v.pos, v.chunk
		v.samples = v.pos+v.chunk == v.prompt
		kept = append(kept, v)
	}
	f.ctx = kept
	for _, h := range c.claimed {
		c.pool.dropHolders(h)
	}
	grown := f.gen[:0]
	for i := range f.gen {
		v := f.gen[i]
		if c.pool.free == 0 && v.slots%c.BlockTokens == 0 && c.hasBlocks() {
			c.short++
			continue
		}
		v.before, v.samples = v.slots, true
		c.pool.grow(v.request)
		grown = append(grown, v)
	}
	f.gen = grown
}

// claim holds the full prefix blocks of r until the blocks of the pass are allocated.
func (c *Core) claim(r *request) {
	w := c.pool.found(r)
	b := c.pool.prefix(w, min(w.all, (r.prompt-1)/c.BlockTokens))
	for ; b != root; b = c.pool.all[b].parent {
		c.pool.hold(b)
		c.claimed = append(c.claimed, holding{b, c.pool.all[b].n})
	}
}

// hasRoom reports whether there are blocks for the whole prompt of r.
func (c *Core) hasRoom(r *request) bool {
	need := countBlocks(r.prompt, c.BlockTokens)
	if need <= c.pool.free || !c.hasBlocks() {
		return true
	}
	if !c.Reuse {
		return false
	}
	w := c.pool.walkTokens(r, r.prompt-1)
	return need-(w.held-w.far) <= c.pool.free
}

// pausePaused completes the pauses that the latest plan began.
func (c *Core) pausePaused() {
	for _, r := range c.chosen.paused {
		if r.victim && r.state != done {
			r.pause()
		}
	}
	c.chosen.paused = c.chosen.paused[:0]
}

// advance updates the states of the requests of a pass. With Overlap, advance is called when the pass is queued,
// before the tokens of the pass are known.
func (c *Core) advance(f *flight) {
	for i := range f.ctx {
		r := f.ctx[i].request
		if r.state == done {
			continue
		}
		r.pos += r.chunk
		r.chunk = 0
		if r.rest() == 0 {
			r.state = generating
			c.foresee(r)
		}
	}
	for i := range f.gen {
		if r := f.gen[i].request; r.state == generating {
			c.foresee(r)
		}
	}
}

// foresee marks a request as retiring if its last token is in flight.
func (c *Core) foresee(r *request) {
	if c.Overlap && r.known-r.prompt+1 >= r.left {
		r.state = retiring
	}
}
