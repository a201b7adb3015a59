package reference

import (
	"github.com/replay-llm/replay/internal/probe"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/sim/prompt"
)

// pool manages the KV blocks of the engine, on the device alone (device) or with host memory (tiered). Every block is
// free, held by requests (active), or cached without a holder (inactive) and evictable.
type pool interface {
	blocks.Pool
	// useBlocks allocates blocks from..to-1 of the list of s, cached blocks first. useBlocks returns how many blocks
	// it allocated.
	useBlocks(s slot, from, to int) int
	// openBlock allocates a block for the tokens after the full blocks of s, and reports whether there was one. The
	// opened block is never cached.
	openBlock(s slot) bool
	// promotePartial makes the partial block of s a full block that can be cached. All tokens of the block must be
	// known.
	promotePartial(s slot)
	// noteProgress counts passes that preempted a request. The count starts over when a request has ended.
	noteProgress(lost, ended bool)
	// passesTime reports whether a pass without progress only waited for a transfer. canRetry reports whether the
	// next pass may make progress for other reasons.
	passesTime() bool
	canRetry(idle bool) bool
}

// supply has the numbers of KV blocks by state.
type supply struct {
	blocks   int
	free     int
	inactive int
}

// active returns the number of blocks held by requests; a shared block counts once.
func (n *supply) active() int { return n.blocks - n.free - n.inactive }

// device is a pool without host memory. device records blocks as ranges of a path: nodes has the cached part of each
// node, and lru has the inactive ranges.
type device struct {
	blocks.DeviceOnly
	*supply
	core  *Core
	tree  *prompt.Tree
	nodes probe.Table[prompt.NodeID, node]
	lru   lru
}

func newDevice(c *Core) *device {
	return &device{supply: &c.supply, core: c, tree: c.cfg.Tree, nodes: probe.New[prompt.NodeID, node](prompt.None), lru: newLRU()}
}

func (p *device) noteProgress(bool, bool) {}
func (p *device) passesTime() bool        { return false }
func (p *device) canRetry(bool) bool      { return false }

// takeBlocks allocates up to n blocks, free blocks first. Then takeBlocks evicts blocks.
func (p *device) takeBlocks(n int) int {
	got := min(n, p.free)
	p.free -= got
	for got < n && p.lru.oldest != noSeg {
		got += p.evictBlocks(n - got)
	}
	return got
}

// evictBlocks evicts up to n blocks from the oldest segment.
func (p *device) evictBlocks(n int) int {
	i := p.lru.oldest
	s := p.lru.at(i)
	k := min(int32(n), s.hi-s.lo)
	if p.core.capture.level == scheduler.CaptureEvents {
		p.core.capture.noteEvicted(s, k)
	}
	p.inactive -= int(k)
	switch end := s.hi - k; {
	case s.node != prompt.None:
		p.shrinkNodes(s, end)
	case s.owner != none:
		p.core.requests[s.owner].own.resident -= k
		s.hi = end
	default:
		s.hi = end
	}
	if s.hi == s.lo {
		p.dropSegment(i)
	}
	return int(k)
}

// shrinkNodes removes the blocks of s from end on from their nodes.
func (p *device) shrinkNodes(s *segment, end int32) {
	for {
		start := p.tree.Start(s.node)
		from := max(end, start)
		n := p.nodes.Get(s.node)
		n.resident -= s.hi - from
		p.core.capture.noteResidency(s.node, n.resident)
		if n.isEmpty() {
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

// dropSegment deletes segment i, which is empty. A younger segment may continue where i began.
func (p *device) dropSegment(i int32) {
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

// useBlocks allocates blocks from..to-1 of the list of s, cached blocks first. useBlocks returns how many blocks it
// allocated.
func (p *device) useBlocks(s slot, from, to int) int {
	p.core.capture.beginUse(&p.core.requests[s], from)
	at := p.reuseCached(s, from, to)
	if at < to {
		end := at + p.takeBlocks(to-at)
		p.storeBlocks(s, at, end)
		at = end
	}
	p.core.capture.publishUse()
	return at - from
}

// openBlock allocates a block for the tokens after the full blocks of s, and reports whether there was one. The
// opened block is never cached.
func (p *device) openBlock(s slot) bool {
	if p.core.capture.level == scheduler.CaptureEvents {
		full := p.core.requests[s].full
		return p.useBlocks(s, full, full+1) == 1
	}
	return p.takeBlocks(1) == 1
}

// reuseCached makes s a holder of the cached blocks among blocks at..to-1 of its list, which precede the uncached
// blocks. reuseCached returns the first block that is not cached.
func (p *device) reuseCached(s slot, at, to int) int {
	r := &p.core.requests[s]
	from := at
	end := min(to, r.shared)
	for i := p.pathIndex(r, at); at < end; i++ {
		id := r.path[i]
		start := int(p.tree.Start(id))
		n := p.nodes.Get(id)
		lo, hi := int32(at-start), min(p.tree.Size(id), int32(end-start))
		if n.resident <= lo {
			break
		}
		cached := min(hi, n.resident)
		p.reviveSpan(&n.span, cached, start)
		p.holdNode(s, n, id, lo, cached)
		at = start + int(cached)
		if cached < hi {
			break
		}
	}
	if end := min(to, r.shared+int(r.own.resident)); at >= r.shared && at < end {
		p.reviveSpan(&r.own, int32(end-r.shared), 0)
		at = end
	}
	if at > from {
		p.core.capture.noteHit(r, at-1)
	}
	return at
}

// pathIndex returns the index in the path of r of the node with block at. pathIndex returns 0 if at is 0 or not in a
// node.
func (p *device) pathIndex(r *request, at int) int {
	if at == 0 || at >= r.shared {
		return 0
	}
	return p.tree.Index(r.path, at)
}

// reviveSpan makes the first `cached` blocks of a span active. base is the index of the first block of the span in
// the path of its segments.
func (p *device) reviveSpan(s *span, cached int32, base int) {
	if cached > s.active {
		p.inactive -= int(cached - s.active)
		s.seg = p.lru.revive(s.seg, int32(base)+cached)
		s.active = cached
	}
}

// storeBlocks records newly allocated blocks at..end-1 of the list of s, which were not cached.
func (p *device) storeBlocks(s slot, at, end int) {
	r := &p.core.requests[s]
	p.core.capture.noteStored(r, at, min(end, r.full))
	named := min(end, r.shared)
	for i := p.pathIndex(r, at); at < named; i++ {
		id := r.path[i]
		start := int(p.tree.Start(id))
		lo, hi := int32(at-start), min(p.tree.Size(id), int32(named-start))
		n := p.nodeOf(id)
		n.resident = hi
		p.core.capture.noteResidency(id, hi)
		p.holdNode(s, n, id, lo, hi)
		at = start + int(hi)
	}
	if at < end && at < r.full {
		r.own.resident = int32(min(end, r.full) - r.shared)
		r.own.active = r.own.resident
	}
}

// holdNode makes s a holder of blocks 0..hi-1 of node n. s held blocks 0..lo-1 of n before.
func (p *device) holdNode(s slot, n *node, id prompt.NodeID, lo, hi int32) {
	r := &p.core.requests[s]
	if hi > n.active {
		n.active = hi
	}
	if hi == p.tree.Size(id) {
		if lo > 0 {
			p.leaveTail(s, n)
		}
		n.holders++
	} else {
		if lo == 0 {
			r.tail, r.tailPrev, r.tailNext = id, none, n.partial
			if n.partial != none {
				p.core.requests[n.partial].tailPrev = s
			}
			n.partial = s
		}
		r.tailHeld = int(hi)
	}
}

// leaveTail removes s from the partial holders of n.
func (p *device) leaveTail(s slot, n *node) {
	r := &p.core.requests[s]
	if r.tailPrev == none {
		n.partial = r.tailNext
	} else {
		p.core.requests[r.tailPrev].tailNext = r.tailNext
	}
	if r.tailNext != none {
		p.core.requests[r.tailNext].tailPrev = r.tailPrev
	}
	r.tail = prompt.None
}

// promotePartial makes the partial block of s one of its private full blocks. All tokens of the block must be known.
func (p *device) promotePartial(s slot) {
	r := &p.core.requests[s]
	r.part = false
	r.full++
	r.own.resident++
	r.own.active++
	p.core.capture.notePromoted(r)
}

// Release releases all blocks of s, last to first.
func (p *device) Release(s slot) {
	r := &p.core.requests[s]
	held := p.core.heldBlocks(r)
	if held > r.full {
		p.free++
		held = r.full
	}
	if own := int32(held - r.shared); own > 0 {
		seg := segment{above: noSeg, hi: own, node: prompt.None, owner: s, uid: r.id}
		if r.own.resident > own {
			seg.above = r.own.seg
		}
		p.inactive += int(own)
		r.own.active, r.own.seg = 0, p.lru.add(seg)
		held = r.shared
	}
	p.releasePath(s, held)
}

// releasePath removes s as a holder of the first `held` blocks of its path. The last blocks that have no holder then
// become a segment.
func (p *device) releasePath(s slot, held int) {
	if held == 0 {
		return
	}
	r := &p.core.requests[s]
	tree := p.tree
	last := tree.Index(r.path, held-1)
	lo, id := held, noSeg
	for i := last; i >= 0; i-- {
		n := p.nodes.Get(r.path[i])
		if r.tail == r.path[i] {
			p.leaveTail(s, n)
		} else {
			n.holders--
		}
		if n.holders > 0 {
			continue
		}
		active := p.widestPartial(n)
		if active == n.active {
			continue
		}
		if id == noSeg {
			seg := segment{above: noSeg, hi: int32(held), node: r.path[last], owner: none}
			if i == last && n.resident > int32(held)-tree.Start(r.path[i]) {
				seg.above = n.seg // another prompt continues here
			}
			id = p.lru.add(seg)
		}
		lo = int(tree.Start(r.path[i]) + active)
		n.active, n.seg = active, id
	}
	if id != noSeg {
		p.lru.at(id).lo = int32(lo)
		p.inactive += held - lo
	}
}

// widestPartial returns the maximum number of blocks of n that a partial holder holds.
func (p *device) widestPartial(n *node) int32 {
	active := 0
	for t := n.partial; t != none; t = p.core.requests[t].tailNext {
		active = max(active, p.core.requests[t].tailHeld)
	}
	return int32(active)
}

// Cached returns how many of the first blocks of s are cached.
func (p *device) Cached(s slot) int {
	r, blocks := &p.core.requests[s], 0
	for _, id := range r.path {
		n := p.nodes.Get(id)
		if n.resident == 0 {
			break
		}
		blocks = min(int(p.tree.Start(id)+n.resident), r.shared)
		if n.resident < p.tree.Size(id) {
			break
		}
	}
	if blocks == r.shared {
		blocks += int(r.own.resident)
	}
	return blocks
}

// Forget abandons the private cached blocks of s, which no request can find after s has left.
func (p *device) Forget(s slot) {
	r := &p.core.requests[s]
	p.core.capture.removeRequest(r)
	if r.own.resident > r.own.active {
		for i := r.own.seg; i != noSeg; {
			s := p.lru.at(i)
			i, s.above, s.owner = s.above, noSeg, none
		}
	}
	r.own = span{}
}
