package reference

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang/radix"
)

// chunk is the part of a request in the prefill of a pass.
type chunk struct {
	request *request
	held    int // tokens that the request held before the pass
	before  int // tokens before the chunk, including tokens found in the cache
	tokens  int // computed tokens
}

// budget is the remaining resources of a pass for admission.
type budget struct {
	reserve float64 // estimated remaining output of the running requests
	mem     float64 // remaining tokens of memory
	input   int     // remaining prompt tokens of the pass
	chunk   int     // remaining prompt tokens for the chunks of this pass
}

// openBudget returns the budget at the start of a pass.
func (c *Core) openBudget() budget {
	b := budget{input: c.MaxPrefillTokens, chunk: c.ChunkTokens}
	for _, r := range c.running {
		left := max(0, r.maxOut-r.out-c.tokensSince(r))
		b.reserve += float64(float64(min(left, c.ClipNewTokens)) * c.ratio.now)
	}
	b.mem = float64(c.spareTokens(c.evictableTokens())) - b.reserve
	return b
}

// spareTokens returns the free and evictable tokens of the pool, without the free tokens in the last pages of running
// requests.
func (c *Core) spareTokens(evictable int) int {
	return max(0, c.free+evictable-c.totals.slack)
}

// chargeBudget subtracts a chunk and the answer after it from the budget.
func (c *Core) chargeBudget(b *budget, tokens, answer int) {
	pages := ceilTo(tokens, c.PageTokens)
	b.mem -= float64(pages + answer)
	b.input -= pages
	b.chunk -= pages
}

// neededTokens returns the tokens that r needs for admission; rest is the number of its missing prompt tokens.
func (c *Core) neededTokens(r *request, rest int) int {
	return rest + c.reservedAnswer(r)
}

// reservedAnswer returns the number of output tokens of a waiting request for which memory is reserved.
func (c *Core) reservedAnswer(r *request) int { return min(r.left(), c.ClipNewTokens) }

// fillBatch fills the batch of the pass and allocates its memory.
func (c *Core) fillBatch(p *scheduler.Pass) {
	c.batch = c.batch[:0]
	if c.waiting.Len() == 0 || c.isHeadBlocked() {
		return
	}
	b := c.openBudget()
	for c.waiting.Len() > 0 && (len(c.batch) == 0 || b.chunk > 0) {
		if !c.admitHead(&b) {
			break
		}
	}
	for _, e := range c.batch {
		p.Admitted = append(p.Admitted, scheduler.Admission{Request: e.request.ID, Reused: e.before})
		p.PrefillTokens += e.tokens
	}
}

// isHeadBlocked reports whether the head of the queue certainly has too little memory. isHeadBlocked avoids the exact
// reserve, which is a sum over all running requests in order.
func (c *Core) isHeadBlocked() bool {
	if len(c.running) == 0 || c.starved {
		return false
	}
	r := c.waiting.Front()
	need := c.neededTokens(r, r.length()-r.stored)
	// The reserve is a sum of rounded products. The error of the reserve is at most one rounding per request and one
	// more for the product.
	spare := float64(c.spareTokens(c.evictableTokens()))
	reserve := float64(float64(c.totals.reserve) * c.ratio.now)
	doubt := float64((float64(max(reserve, -reserve)*float64(len(c.running)+4)) + spare) * 0x1p-51)
	return float64(need) >= spare-reserve+doubt
}

// admitHead admits the head of the queue, or a chunk of it, and reports whether it did.
func (c *Core) admitHead(b *budget) bool {
	r := c.waiting.Front()
	e := chunk{request: r, held: r.stored, before: r.stored}
	missing := r.length() - r.stored
	if missing == 0 {
		return false
	}
	if float64(c.neededTokens(r, missing)) >= b.mem {
		return false
	}
	tokens, ok := c.cutChunk(b, missing)
	e.tokens = tokens
	if !ok || !c.allocChunk(&e) {
		return false
	}
	answer := c.reservedAnswer(r)
	if e.before+e.tokens < r.length() {
		answer = 0
	}
	c.waiting.PopFront()
	c.sorted.valid = false
	c.batch = append(c.batch, e)
	c.chargeBudget(b, tokens, answer)
	return true
}

// cutChunk returns the size of the chunk for rest missing tokens, and false if the budget has no room for it.
func (c *Core) cutChunk(b *budget, rest int) (int, bool) {
	n := rest
	if rest > c.ChunkTokens {
		if n = min(floorTo(b.chunk, c.PageTokens), rest); n == 0 {
			return 0, false
		}
	}
	pages := ceilTo(n, c.PageTokens)
	return n, pages <= b.input && pages <= b.chunk
}

// lockPrefix looks up the first limit tokens of r, locks the cached ones, and returns their number.
func (c *Core) lockPrefix(r *request, limit int) int {
	pages, n := c.tree.Match(&r.seq, c.pagesOf(limit))
	c.tree.Lock(n)
	r.node, r.prot = n, int(pages)*c.PageTokens
	return r.prot
}

// unlockPrefix reverts lockPrefix.
func (c *Core) unlockPrefix(r *request) {
	c.tree.Unlock(r.node)
	r.node, r.prot = radix.Root, 0
}

// allocChunk makes room for e, looks up its cached part, and allocates memory for the remaining tokens. allocChunk
// returns false if there is no room.
func (c *Core) allocChunk(e *chunk) bool {
	r := e.request
	end := r.stored + e.tokens
	c.evictTokens(e.tokens - c.free)
	first := r.stored == 0
	if first {
		e.before = c.lockPrefix(r, end)
	}
	places := end - e.before
	if places > c.free {
		if first {
			c.unlockPrefix(r)
		}
		c.ratio.now = c.ratio.first
		return false
	}
	e.tokens = end - e.before
	c.placeChunk(e, places)
	return true
}

// placeChunk allocates tokens of the pool for a chunk.
func (c *Core) placeChunk(e *chunk, places int) {
	c.free -= places
	e.request.stored = e.before + e.tokens
	c.record.prefilled(e.request, e.before, e.request.stored)
}

// prefillTime returns the duration of the batch's prefill, in ms.
func (c *Core) prefillTime() (float64, error) {
	n := len(c.batch)
	if n == 0 || c.Role == scheduler.Decode {
		return 0, nil
	}
	reached, before := 0, 0
	for i := range c.batch {
		reached += c.batch[i].before + c.batch[i].tokens
		before += c.batch[i].before
	}
	return c.Clock.Prefill(n, reached/n, before/n)
}

// runBatch starts the requests of the batch with complete prompts. At most one prompt, the last one, is incomplete.
func (c *Core) runBatch() {
	for _, e := range c.batch {
		r := e.request
		cut := r.stored < r.length()
		if cut {
			c.cachePages(r)
		}
		if !cut {
			c.startRunning(r)
			continue
		}
		c.waiting.PushFront(r)
		c.sorted.valid = false
	}
}

// cachePages caches the whole pages of r.
func (c *Core) cachePages(r *request) {
	k := floorTo(r.stored, c.PageTokens)
	if k <= r.cached {
		return
	}
	_, n := c.tree.Insert(&r.seq, c.pagesOf(k))
	r.stamped = c.tree.Tick() // the reference looks up the inserted pages again
	c.tree.StampPath(n, r.stamped)
	c.tree.Lock(n)
	c.tree.Unlock(r.node)
	r.node, r.prot, r.cached = n, k, k
}
