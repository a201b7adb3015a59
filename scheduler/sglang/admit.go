package sglang

import "github.com/replay-llm/replay/scheduler"

// budget is the remaining resources of a pass for admission.
type budget struct {
	reserved float64 // reserved tokens: expected outputs, and tokens of admitted requests
	taken    int     // tokens of admitted requests
	window   int     // tokens of admitted requests and their answers in the pool of layers with a window
	stays    []stay  // remaining outputs of running and admitted requests, if outputs are counted exactly
	input    int     // remaining prompt tokens of the pass
	chunk    int     // remaining prompt tokens for the chunks of this pass
	share    float64 // share of expected outputs that is reserved
}

// verdict is the result of trying to admit a request.
type verdict uint8

const (
	proceed  verdict = iota
	noTokens         // the pool has too few tokens
	spent            // the pass has enough prompt tokens, or the limit of requests is reached
)

// openBudget returns the initial budget of a pass.
func (c *Core) openBudget() budget {
	b := budget{input: c.MaxPrefillTokens, chunk: c.ChunkTokens, share: c.ratio.now}
	if c.IgnoreEOS {
		b.share = 1
	}
	for _, r := range c.batch.running {
		b.reserved += c.reservedFor(r, &b)
	}
	if c.MixedChunk { // reserve a token for each running request
		n := len(c.batch.running)
		b.reserved, b.taken = float64(n)+b.reserved, n
		b.input -= n
		b.chunk -= n
	}
	return b
}

// reservedFor returns the number of tokens reserved for the remaining output of a running request.
func (c *Core) reservedFor(r *request, b *budget) float64 {
	return float64(float64(min(r.maxOut-c.batch.gainedBy(r), c.ClipNewTokens)) * b.share)
}

// memoryLeft returns the free and evictable tokens of the pool minus the reserved tokens.
func (c *Core) memoryLeft(b *budget) float64 {
	return float64(c.pages.free+c.pages.evictableTokens()) - b.reserved
}

// charge subtracts a chunk and the answer after it from the budget.
func (c *Core) charge(b *budget, tokens, answer int) {
	pages := c.pages.poolTokens(tokens)
	b.window += c.win.windowNeed(pages, answer, b.chunk)
	b.reserved += float64(pages + c.PageTokens + answer)
	b.taken += pages + c.PageTokens
	b.input -= pages
	b.chunk -= pages
}

// judge reports whether the budget has room for another request.
func (c *Core) judge(b *budget) verdict {
	switch {
	case c.memoryLeft(b) <= 0 || c.pages.free+c.pages.evictableTokens()-b.taken <= 0:
		return noTokens
	case c.Window > 0 && c.win.windowLeft(b) <= 0:
		return noTokens
	case b.input <= 0 || b.chunk <= 0:
		return spent
	}
	return proceed
}

// planPrompts plans a batch of prompts and allocates its memory. planPrompts reports whether the batch has any
// prompt.
func (c *Core) planPrompts(f *flight, p *scheduler.Pass) bool {
	if len(c.batch.running) == 0 || c.Window > 0 || c.Priorities.Preempt {
		c.queue.full = false
	}
	if (c.queue.full || c.queue.waiting.Len() == 0) && c.partial == nil {
		return false
	}
	if c.partial == nil && c.placesLeft() <= 0 && !c.Priorities.Preempt {
		c.queue.full = true
		return false
	}
	c.queue.sortQueue()
	b := c.openBudget()
	if c.partial != nil {
		c.continuePartial(&b, f)
	}
	c.admitWaiting(&b, f)
	c.queue.requeueVictims(p)
	if len(f.batch) == 0 {
		return false
	}
	c.allocBatch(f)
	return true
}

// placesLeft returns the number of requests that may start to run. Requests with memory count as running, even if
// they do not run yet.
func (c *Core) placesLeft() int {
	if c.MaxRunning == 0 {
		return c.live
	}
	return c.MaxRunning - (c.live - c.queue.waiting.Len()) - len(c.outbox.inFlight)
}

// continuePartial adds the next chunk of the partially prefilled request. If no unreserved memory is left, the chunk
// has the maximum size, because the request must continue in order to end. The request waits only if the pool lacks
// the memory for the chunk.
func (c *Core) continuePartial(b *budget, f *flight) {
	r := c.partial
	width := min(b.chunk, int(max(0, c.memoryLeft(b))))
	if c.Window > 0 {
		width = min(width, c.win.windowLeft(b)-c.PageTokens)
		if len(c.batch.running) == 0 && width <= 0 {
			width = min(b.chunk, c.win.windowTokens())
		}
	} else if width <= 0 {
		width = b.chunk
	}
	if width <= 0 {
		return
	}
	rest := r.length() - r.stored
	width = c.queue.leaveRoom(width, rest, b)
	e := chunk{visit: visit{r, r.epoch}, before: r.stored, tokens: min(rest, width), whole: rest <= width}
	if c.pages.poolTokens(e.before+e.tokens)-c.pages.poolTokens(e.before) > c.pages.free+c.pages.evictableTokens() {
		return
	}
	answer := 0
	if e.whole {
		answer = min(r.maxOut, c.ClipNewTokens)
		c.partial = nil
	}
	c.parked = false
	f.batch = append(f.batch, e)
	c.charge(b, e.tokens, answer)
}

// admitWaiting admits requests from the head of the queue until one must wait.
func (c *Core) admitWaiting(b *budget, f *flight) {
	places := c.placesLeft() + len(f.batch) // a continued request already occupies one of the running requests
	for skipped := 0; c.queue.waiting.Len() > skipped; {
		r := c.queue.waiting.All()[skipped]
		if c.judge(b) == spent {
			return
		}
		if len(f.batch) >= places+len(c.queue.victims) {
			c.queue.full = true
		}
		if c.queue.full && !c.queue.preemptFor(r, b) {
			return
		}
		if !c.tiers.endFetch(r) {
			skipped++
			continue
		}
		v := c.admitRequest(r, b, f)
		if v == noTokens {
			c.queue.full = len(f.batch) > 0 || len(c.batch.running) > 0
		}
		if v != proceed {
			return
		}
	}
}

// admitRequest admits a queued request, or its first chunk, and returns whether another may follow.
func (c *Core) admitRequest(r *request, b *budget, f *flight) verdict {
	before := c.pages.findPrefix(r)
	host := c.tiers.hostPrefix()
	e := chunk{visit: visit{r, r.epoch}, before: before + host, tokens: r.length() - before - host, whole: true}
	v := spent
	switch {
	case c.PrefillRequests > 0 && len(f.batch) >= c.PrefillRequests:
	case c.IgnoreEOS && !c.pages.caching:
		v = c.fitExactly(b, f, &e)
	default:
		v = c.cutChunk(b, f, &e, host)
	}
	if v == proceed && host > 0 && !c.tiers.loadPrefix(r, f, host) {
		host = 0
		e = chunk{visit: visit{r, r.epoch}, before: before, tokens: r.length() - before, whole: true}
		v = c.cutChunk(b, f, &e, host)
	}
	if v != proceed {
		c.pages.dropPrefix(r)
		return v
	}
	c.queue.waiting.Remove(r)
	r.deadline = 0
	if r.hit < 0 {
		r.hit, r.hostHit = before+host, host
	}
	answer := 0
	if e.whole {
		answer = min(r.maxOut, c.ClipNewTokens)
	} else {
		c.partial, c.parked = r, false
	}
	f.batch = append(f.batch, e)
	c.charge(b, e.tokens, answer)
	return c.judge(b)
}

// cutChunk cuts e, the remaining prompt, to the limit of the pass. cutChunk returns whether e may be admitted with
// host tokens from host memory.
func (c *Core) cutChunk(b *budget, f *flight, e *chunk, host int) verdict {
	need := e.tokens + host + min(max(0, e.maxOut-e.out), c.ClipNewTokens) + c.PageTokens
	if float64(need) >= c.memoryLeft(b) {
		return noTokens
	}
	limit := b.chunk
	if c.Window > 0 {
		if limit = c.win.limitByWindow(b, f, e); limit <= 0 {
			return noTokens
		}
	}
	if c.pages.poolTokens(e.tokens) > limit {
		e.tokens, e.whole = floorTo(limit, c.PageTokens), false
		if e.tokens <= 0 || c.partial != nil {
			return spent
		}
	}
	return proceed
}

// isIdle reports whether no request has or is about to have memory of the pool.
func (c *Core) isIdle(f *flight) bool { return c.live == c.queue.waiting.Len() && len(f.batch) == 0 }

// allocBatch allocates the memory of the batch. Before that allocBatch evicts enough for all tokens plus one page per
// prompt.
func (c *Core) allocBatch(f *flight) {
	wanted := 0
	for i := range f.batch {
		wanted += f.batch[i].tokens
	}
	c.queue.counted.last = wanted
	if c.PageTokens > 1 {
		wanted += len(f.batch) * c.PageTokens
	}
	if c.Window > 0 {
		c.win.slideChunks(f)
	}
	c.pages.evictTokens(wanted)
	for i := range f.batch {
		e := &f.batch[i]
		end := e.before + e.tokens
		c.pages.takeTokens(c.pages.poolTokens(end) - c.pages.poolTokens(e.before))
		e.stored, e.reached = end, end
	}
}
