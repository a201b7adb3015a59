package sglang

import "github.com/replay-llm/replay/scheduler"

// chunk is a request's share of a pass's prefill.
type chunk struct {
	request *request
	held    int // tokens it held before the pass
	before  int // tokens it had before, those found in the cache among them
	tokens  int // tokens computed
}

// budget is what a pass may still admit.
type budget struct {
	reserve float64 // outputs that the running requests are believed to need
	mem     float64 // tokens left, where nothing admitted changes what is evictable
	taken   int     // tokens charged so far
	input   int     // prompt tokens left
	chunk   int     // prompt tokens left to this pass's chunks
}

// blocked remembers the lookup of a request that was refused for memory. While
// the tree stays as it is, the next lookup would find the same and leave every
// stamp in the order it has.
type blocked struct {
	request   *request
	changes   int64
	need      int
	evictable int // tokens, with the request's path locked
}

// openBudget returns the budget at the start of a pass.
func (c *Core) openBudget() budget {
	b := budget{input: c.MaxPrefillTokens, chunk: c.ChunkTokens}
	if c.rules.CutAny {
		b.chunk = floorTo(b.chunk, c.PageTokens)
	}
	for _, r := range c.running {
		left := max(0, r.maxOut-r.out-c.tokensSince(r))
		b.reserve += float64(float64(min(left, c.ClipNewTokens)) * c.ratio.now)
	}
	b.mem = float64(c.spareTokens(c.evictableTokens())) - b.reserve
	return b
}

// spareTokens returns the room in the pool, with the places counted out that the
// running requests' last pages keep for themselves.
func (c *Core) spareTokens(evictable int) int {
	return max(0, c.free+evictable-c.totals.slack)
}

// memoryLeft returns the room that is left, in tokens.
func (c *Core) memoryLeft(b *budget) float64 {
	if !c.rules.LockFirst {
		return b.mem
	}
	return float64(c.spareTokens(c.evictableTokens())) - b.reserve - float64(b.taken)
}

// chargeBudget takes a chunk and the answer after it from the budget.
func (c *Core) chargeBudget(b *budget, tokens, answer int) {
	pages := ceilTo(tokens, c.PageTokens)
	all := pages + answer
	if c.rules.Reserve {
		all += c.PageTokens
	}
	b.taken += all
	b.mem -= float64(all)
	b.input -= pages
	b.chunk -= pages
}

// hasRoom reports whether another request may join the batch.
func (c *Core) hasRoom(b *budget) bool {
	if !c.rules.CutAny {
		return b.chunk > 0
	}
	return c.memoryLeft(b) > 0 && b.input > 0 && b.chunk > 0
}

// neededTokens returns the room that r asks for, of whose prompt rest tokens are
// missing.
func (c *Core) neededTokens(r *request, rest int) int {
	n := rest + c.reservedAnswer(r)
	if c.rules.Reserve {
		n += c.PageTokens
	}
	return n
}

// reservedAnswer returns the output of a waiting request that memory is
// reserved for.
func (c *Core) reservedAnswer(r *request) int { return min(r.left(), c.ClipNewTokens) }

// isIdle reports whether nothing runs and nothing is about to.
func (c *Core) isIdle() bool {
	return len(c.running) == 0 && len(c.batch) == 0 && c.partial == nil
}

// fillBatch fills the batch of the pass and finds its memory.
func (c *Core) fillBatch(p *scheduler.Pass) {
	c.batch = c.batch[:0]
	if c.partial == nil && (c.waiting.Len() == 0 || c.isHeadBlocked()) {
		return
	}
	b := c.openBudget()
	if c.partial == nil || c.resumePartial(&b) {
		for c.waiting.Len() > 0 && (len(c.batch) == 0 || c.hasRoom(&b)) {
			if !c.admitHead(&b) {
				break
			}
		}
	}
	if c.rules.LockFirst {
		c.allocBatch()
	}
	for _, e := range c.batch {
		reused := e.before
		if c.rules.FirstReuse {
			reused = e.request.hit
		}
		p.Admitted = append(p.Admitted, scheduler.Admission{Request: e.request.ID, Reused: reused})
		p.PrefillTokens += e.tokens
	}
}

// isHeadBlocked reports whether the head of the queue is refused for memory beyond
// any doubt. It does without the exact reserve, which is a sum over all running
// requests in order.
func (c *Core) isHeadBlocked() bool {
	if len(c.running) == 0 || c.starved {
		return false
	}
	r := c.waiting.Front()
	var need, evictable int
	switch {
	case !c.rules.LockFirst:
		need, evictable = c.neededTokens(r, r.length()-r.stored), c.evictableTokens()
	case c.blocked.request == r && c.blocked.changes == c.tree.changes:
		need, evictable = c.blocked.need, c.blocked.evictable
	default:
		return false
	}
	// The reserve is a sum of rounded products: it is off by at most a rounding
	// per request and one more for the product.
	spare := float64(c.spareTokens(evictable))
	reserve := float64(float64(c.totals.reserve) * c.ratio.now)
	doubt := float64((float64(max(reserve, -reserve)*float64(len(c.running)+4)) + spare) * 0x1p-51)
	return float64(need) >= spare-reserve+doubt
}

// resumePartial continues the request kept aside. It reports false when that
// takes the whole pass.
func (c *Core) resumePartial(b *budget) bool {
	r := c.partial
	rest := r.length() - r.stored
	width := min(b.chunk, floorTo(int(max(0, c.memoryLeft(b))), c.PageTokens))
	n, answer := rest, c.reservedAnswer(r)
	if ceilTo(rest, c.PageTokens) > width {
		n, answer = floorTo(width, c.PageTokens), 0
	}
	if n == 0 {
		return false
	}
	c.partial = nil
	e := chunk{request: r, held: r.stored, before: r.stored, tokens: n}
	if !c.rules.LockFirst && !c.allocChunk(&e) {
		c.partial = r
		return false
	}
	c.batch = append(c.batch, e)
	c.chargeBudget(b, n, answer)
	return true
}

// admitHead admits the request at the head of the queue, or a chunk of it.
func (c *Core) admitHead(b *budget) bool {
	r := c.waiting.Front()
	e := chunk{request: r, held: r.stored, before: r.stored}
	missing := r.length() - r.stored
	if missing == 0 {
		return false
	}
	found := c.rules.LockFirst && r.stored == 0
	if found {
		e.before = c.lockPrefix(r, r.length())
	}
	rest := r.length() - e.before
	asked := rest
	if !c.rules.Discount {
		asked = missing
	}
	ok := !c.lacksMemory(b, r, asked)
	if ok {
		e.tokens, ok = c.cutChunk(b, rest)
	}
	charged := e.tokens + asked - rest
	if ok && !c.rules.LockFirst {
		ok = c.allocChunk(&e)
	}
	if !ok {
		c.refuseHead(r, found, c.neededTokens(r, asked))
		return false
	}
	answer := c.reservedAnswer(r)
	if e.before+e.tokens < r.length() {
		answer = 0
	}
	c.waiting.PopFront()
	c.sorted.valid = false
	if r.hit < 0 {
		r.hit = e.before
	}
	c.batch = append(c.batch, e)
	c.chargeBudget(b, charged, answer)
	return true
}

// lacksMemory reports whether there is too little memory for r, of which asked
// tokens are to be computed.
func (c *Core) lacksMemory(b *budget, r *request, asked int) bool {
	if c.rules.Reserve && c.isIdle() {
		return false
	}
	return float64(c.neededTokens(r, asked)) >= c.memoryLeft(b)
}

// refuseHead leaves the head of the queue where it is, and gives back the prefix
// that was found for it.
func (c *Core) refuseHead(r *request, found bool, need int) {
	if !found {
		return
	}
	evictable := c.evictableTokens()
	c.unlockPrefix(r)
	if len(c.batch) == 0 {
		c.blocked = blocked{r, c.tree.changes, need, evictable}
	}
}

// cutChunk returns the size of the chunk for rest missing tokens; false when
// there is nothing left for it.
func (c *Core) cutChunk(b *budget, rest int) (int, bool) {
	if c.rules.CutAny {
		if ceilTo(rest, c.PageTokens) <= b.chunk {
			return rest, true
		}
		return b.chunk, b.chunk > 0
	}
	n := rest
	if rest > c.ChunkTokens {
		if n = min(floorTo(b.chunk, c.PageTokens), rest); n == 0 {
			return 0, false
		}
	}
	pages := ceilTo(n, c.PageTokens)
	return n, pages <= b.input && pages <= b.chunk
}

// lockPrefix looks up the first limit tokens of r, locks those that are cached, and
// returns their number.
func (c *Core) lockPrefix(r *request, limit int) int {
	if !c.caching {
		return 0
	}
	if c.rules.PrefixCap {
		limit = min(limit, r.length()-1)
	}
	pages, n := c.tree.match(&r.seq, c.pagesOf(limit))
	c.tree.lock(n)
	r.node, r.prot = n, int(pages)*c.PageTokens
	return r.prot
}

// unlockPrefix undoes lockPrefix.
func (c *Core) unlockPrefix(r *request) {
	c.tree.unlock(r.node)
	r.node, r.prot = root, 0
}

// allocChunk makes room for e, then looks up what of it is cached, and gives the
// rest places. It reports false when there is no room.
func (c *Core) allocChunk(e *chunk) bool {
	r := e.request
	end := r.stored + e.tokens
	c.evictTokens(c.poolTokens(e.tokens) - c.free)
	first := r.stored == 0
	if first {
		e.before = c.lockPrefix(r, end)
	}
	places := c.poolTokens(end) - c.poolTokens(e.before)
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

// allocBatch makes room for the whole batch at once.
func (c *Core) allocBatch() {
	sum := 0
	for i := range c.batch {
		sum += c.poolTokens(c.batch[i].tokens)
	}
	c.evictTokens(sum - c.free)
	for i := range c.batch {
		c.placeChunk(&c.batch[i], c.poolTokens(c.batch[i].tokens))
	}
}

// placeChunk gives a chunk its places in the pool.
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

// runBatch starts the requests of the batch whose prompts are complete. At most one
// is not: it is the last.
func (c *Core) runBatch() {
	for _, e := range c.batch {
		r := e.request
		cut := r.stored < r.length()
		if c.caching && (cut || c.rules.CommitPoints) {
			c.cachePages(r)
		}
		switch {
		case !cut:
			c.startRunning(r)
		case c.rules.PartialSlot:
			c.partial = r
		default:
			c.waiting.PushFront(r)
			c.sorted.valid = false
		}
	}
}

// cachePages caches the whole pages of what r holds.
func (c *Core) cachePages(r *request) {
	k := floorTo(r.stored, c.PageTokens)
	own := r.cached
	if c.rules.Release {
		own = r.prot
	}
	if k <= own {
		return
	}
	m, n := c.tree.insert(&r.seq, c.pagesOf(k))
	if c.rules.Dedupe {
		c.free += int(m)*c.PageTokens - r.prot
	}
	if !c.rules.CommitPoints {
		r.stamped = c.tree.tick() // the reference looks up what it has just put there
		c.tree.stampPath(n, r.stamped)
	}
	c.tree.lock(n)
	c.tree.unlock(r.node)
	r.node, r.prot, r.cached = n, k, k
}
