package reference

import (
	"github.com/replay-llm/replay/internal/probe"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim/prompt"
)

// pool is the engine's KV blocks. Every block is free, held by requests
// (active), or cached without a holder (inactive) and then evictable.
type pool struct {
	core     *Core
	blocks   int
	free     int
	inactive int
	tree     *prompt.Tree
	nodes    probe.Table[prompt.NodeID, node]
	lru      lru
}

func (p *pool) init(blocks int, tree *prompt.Tree, c *Core) {
	*p = pool{core: c, blocks: blocks, free: blocks, tree: tree, nodes: probe.New[prompt.NodeID, node](prompt.None), lru: newLRU()}
}

// active is the number of blocks held by requests, shared ones counted once.
func (p *pool) active() int { return p.blocks - p.free - p.inactive }

// take gets up to n blocks, free ones first, evicting for the others.
func (p *pool) take(n int) int {
	got := min(n, p.free)
	p.free -= got
	for got < n && p.lru.oldest != noSeg {
		got += p.evict(n - got)
	}
	return got
}

// evict takes up to n blocks from the oldest segment.
func (p *pool) evict(n int) int {
	i := p.lru.oldest
	s := p.lru.at(i)
	k := min(int32(n), s.hi-s.lo)
	if p.core.capture.level == scheduler.CaptureEvents {
		p.core.capture.evicted(s, k)
	}
	p.inactive -= int(k)
	switch end := s.hi - k; {
	case s.node != prompt.None:
		p.shrink(s, end)
	case s.owner != none:
		p.core.requests[s.owner].own.resident -= k
		s.hi = end
	default:
		s.hi = end
	}
	if s.hi == s.lo {
		p.empty(i)
	}
	return int(k)
}

// shrink takes the blocks from end on from the nodes they are in.
func (p *pool) shrink(s *segment, end int32) {
	for {
		start := p.tree.Start(s.node)
		from := max(end, start)
		n := p.nodes.Get(s.node)
		n.resident -= s.hi - from
		p.core.capture.residency(s.node, n.resident)
		if n.empty() {
			p.nodes.Delete(s.node)
		}
		s.hi = from
		if from == end && (from > start || from == s.lo) {
			return
		}
		s.node = p.tree.Parent(s.node)
		if from == end {
			return
		}
	}
}

// empty ends the segment i, which has no block left. A younger one may go on
// where it began.
func (p *pool) empty(i int32) {
	s := p.lru.at(i)
	switch {
	case s.node != prompt.None:
		if at := s.lo - p.tree.Start(s.node); at > 0 {
			if n := p.nodes.Get(s.node); n.active < at {
				p.lru.unlink(n.seg, i)
			}
		}
	case s.owner != none:
		if o := &p.core.requests[s.owner].own; o.active < s.lo {
			p.lru.unlink(o.seg, i)
		}
	}
	p.lru.drop(i)
}

// disown makes the cached blocks of r's own, which nobody can name once r is
// gone, nobody's.
func (p *pool) disown(r *request) {
	if r.own.resident > r.own.active {
		for i := r.own.seg; i != noSeg; {
			s := p.lru.at(i)
			i, s.above, s.owner = s.above, noSeg, none
		}
	}
	r.own = span{}
}

// use gives s the blocks from..to-1 of its list, cached ones first, and returns
// how many it got.
func (c *Core) use(s slot, from, to int) int {
	if c.offload != nil {
		return c.offload.use(s, from, to)
	}
	c.capture.order(c, &c.requests[s], from)
	at := c.reuse(s, from, to)
	if at < to {
		end := at + c.pool.take(to-at)
		c.store(s, at, end)
		at = end
	}
	c.capture.publish()
	return at - from
}

// open gives s a block for the tokens after its full ones, which nobody can have
// cached, and reports whether there was one.
func (c *Core) open(s slot) bool {
	if c.offload != nil || c.capture.level == scheduler.CaptureEvents {
		full := c.requests[s].full
		return c.use(s, full, full+1) == 1
	}
	return c.pool.take(1) == 1
}

// reuse gives s those of blocks at..to-1 of its list that are cached. They come
// first. It returns the first block that is not.
func (c *Core) reuse(s slot, at, to int) int {
	r := &c.requests[s]
	from := at
	end := min(to, r.shared)
	for i := c.node(r, at); at < end; i++ {
		id := r.path[i]
		start := int(c.pool.tree.Start(id))
		n := c.pool.nodes.Get(id)
		lo, hi := int32(at-start), min(c.pool.tree.Size(id), int32(end-start))
		if n.resident <= lo {
			break
		}
		cached := min(hi, n.resident)
		c.pool.revive(&n.span, cached, start)
		c.hold(s, n, id, lo, cached)
		at = start + int(cached)
		if cached < hi {
			break
		}
	}
	if end := min(to, r.shared+int(r.own.resident)); at >= r.shared && at < end {
		c.pool.revive(&r.own, int32(end-r.shared), 0)
		at = end
	}
	if at > from {
		c.capture.hit(c, r, at-1)
	}
	return at
}

// node is the place in r's path of the node with block at, if there is one.
func (c *Core) node(r *request, at int) int {
	if at == 0 || at >= r.shared {
		return 0
	}
	return c.pool.tree.Index(r.path, at)
}

// revive makes the first cached blocks of a span, which begins base blocks into
// its segments' path, active.
func (p *pool) revive(s *span, cached int32, base int) {
	if cached > s.active {
		p.inactive -= int(cached - s.active)
		s.seg = p.lru.revive(s.seg, int32(base)+cached)
		s.active = cached
	}
}

// store makes blocks at..end-1 of s's list, which were not cached, its own
// taken blocks.
func (c *Core) store(s slot, at, end int) {
	r := &c.requests[s]
	c.capture.stored(c, r, at, min(end, r.full))
	named := min(end, r.shared)
	for i := c.node(r, at); at < named; i++ {
		id := r.path[i]
		start := int(c.pool.tree.Start(id))
		lo, hi := int32(at-start), min(c.pool.tree.Size(id), int32(named-start))
		n := c.pool.node(id)
		n.resident = hi
		c.capture.residency(id, hi)
		c.hold(s, n, id, lo, hi)
		at = start + int(hi)
	}
	if at < end && at < r.full {
		r.own.resident = int32(min(end, r.full) - r.shared)
		r.own.active = r.own.resident
	}
}

// hold makes s a holder of blocks 0..hi-1 of node n, of which it held lo.
func (c *Core) hold(s slot, n *node, id prompt.NodeID, lo, hi int32) {
	r := &c.requests[s]
	if hi > n.active {
		n.active = hi
	}
	if hi == c.pool.tree.Size(id) {
		if lo > 0 {
			c.leaveTail(s, n)
		}
		n.holders++
	} else {
		if lo == 0 {
			r.tail, r.tailPrev, r.tailNext = id, none, n.partial
			if n.partial != none {
				c.requests[n.partial].tailPrev = s
			}
			n.partial = s
		}
		r.tailHeld = int(hi)
	}
}

// leaveTail takes s from the partial holders of n.
func (c *Core) leaveTail(s slot, n *node) {
	r := &c.requests[s]
	if r.tailPrev == none {
		n.partial = r.tailNext
	} else {
		c.requests[r.tailPrev].tailNext = r.tailNext
	}
	if r.tailNext != none {
		c.requests[r.tailNext].tailPrev = r.tailPrev
	}
	r.tail = prompt.None
}

// promote makes s's partial block, now full of known tokens, a block of its own
// account.
func (c *Core) promote(s slot) {
	r := &c.requests[s]
	r.part = false
	r.full++
	if c.offload != nil {
		c.offload.promote(s)
	} else {
		r.own.resident++
		r.own.active++
	}
	c.capture.promoted(c, r)
}

// release gives back every block s holds, last to first.
func (c *Core) release(s slot) {
	if c.offload != nil {
		c.offload.release(s)
		return
	}
	r := &c.requests[s]
	held := c.held(r)
	if held > r.full {
		c.pool.free++
		held = r.full
	}
	if own := int32(held - r.shared); own > 0 {
		seg := segment{above: noSeg, hi: own, node: prompt.None, owner: s, uid: r.id}
		if r.own.resident > own {
			seg.above = r.own.seg
		}
		c.pool.inactive += int(own)
		r.own.active, r.own.seg = 0, c.pool.lru.add(seg)
		held = r.shared
	}
	c.releasePath(s, held)
}

// releasePath takes s from the holders of the first held blocks of its path. A
// tail of them, perhaps empty, has no holder left then and becomes a segment.
func (c *Core) releasePath(s slot, held int) {
	if held == 0 {
		return
	}
	r := &c.requests[s]
	tree := c.pool.tree
	last := tree.Index(r.path, held-1)
	lo, id := held, noSeg
	for i := last; i >= 0; i-- {
		n := c.pool.nodes.Get(r.path[i])
		if r.tail == r.path[i] {
			c.leaveTail(s, n)
		} else {
			n.holders--
		}
		if n.holders > 0 {
			continue
		}
		active := c.widest(n)
		if active == n.active {
			continue
		}
		if id == noSeg {
			seg := segment{above: noSeg, hi: int32(held), node: r.path[last], owner: none}
			if i == last && n.resident > int32(held)-tree.Start(r.path[i]) {
				seg.above = n.seg // another prompt goes on from here
			}
			id = c.pool.lru.add(seg)
		}
		lo = int(tree.Start(r.path[i]) + active)
		n.active, n.seg = active, id
	}
	if id != noSeg {
		c.pool.lru.at(id).lo = int32(lo)
		c.pool.inactive += held - lo
	}
}

// widest is the number of blocks of n that its partial holders hold.
func (c *Core) widest(n *node) int32 {
	active := 0
	for t := n.partial; t != none; t = c.requests[t].tailNext {
		active = max(active, c.requests[t].tailHeld)
	}
	return int32(active)
}

// cachedPrefix is the number of prompt tokens of r whose KV is cached, from the
// first on; blocks r generated count up to the prompt's length.
func (c *Core) cachedPrefix(r *request) int {
	if !c.cfg.PrefixCaching {
		return 0
	}
	if c.offload != nil {
		return min(c.offload.prefix(r)<<c.shift, r.input)
	}
	blocks, tree := 0, c.pool.tree
	for _, id := range r.path {
		n := c.pool.nodes.Get(id)
		if n.resident == 0 {
			break
		}
		blocks = min(int(tree.Start(id)+n.resident), r.shared)
		if n.resident < tree.Size(id) {
			break
		}
	}
	if blocks == r.shared {
		blocks += int(r.own.resident)
	}
	return min(blocks<<c.shift, r.input)
}
