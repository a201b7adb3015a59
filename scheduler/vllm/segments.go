package vllm

import (
	"github.com/replay-llm/replay/internal/probe"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/sim/prompt"
)

// segments is the KV blocks of an engine that nobody watches one by one: what a
// request finds, holds and gives back is a few segments, however long its prompt.
// It does what device does.
//
// It rests on this: who holds a block holds all before it, and lets go of them after
// it. So the blocks of a node that can be found are its first ones, and a segment in
// the queue is taken from its end.
type segments struct {
	blocks.DeviceOnly
	*supply
	core  *Core
	tree  *prompt.Tree
	store store
	nodes probe.Table[prompt.NodeID, layer]
	// blank is the number of free blocks that are taken before all in the queue: never
	// used or, unless there is one queue for all, released without a name.
	blank    int
	oneQueue bool
	counted  bool        // what is cached is told by node
	pieces   []segmentID // of releaseHolding
	counts   []int32     // of Check, by segment
}

// holding is a number of blocks that a request holds, from the first of a segment on.
// When that was split since, they go on in its rest.
type holding struct {
	segment segmentID
	blocks  int32
}

func newSegments(c *Core) *segments {
	return &segments{
		supply: &c.supply, core: c, tree: c.cfg.Tree, store: newStore(), blank: c.supply.usable,
		nodes: probe.New[prompt.NodeID, layer](prompt.None), oneQueue: c.rules.OneQueue,
		counted: c.cfg.Capture == scheduler.CaptureResidency,
	}
}

// Cached returns how many of the first blocks of s can be found.
func (p *segments) Cached(s slot) int {
	r := &p.core.requests[s]
	most := p.core.findableBlocks(r)
	found := 0
	for _, id := range r.path {
		end := int(p.nodes.Get(id).end)
		if end == 0 {
			break
		}
		found = min(end, r.shared)
		if end < int(p.tree.End(id)) || found >= most {
			break
		}
	}
	if found == r.shared && r.own.end > 0 {
		found = int(r.own.end)
	}
	return min(found, most)
}

// visitHits shows the segments with the first blocks of r, which are cached, and of each
// up to which block they are asked for.
func (p *segments) visitHits(r *request, hits int, visit func(i segmentID, end int32)) {
	at := int32(0)
	for k := 0; int(at) < hits; k++ {
		l := &r.own
		if int(at) < r.shared {
			l = p.nodes.Get(r.path[k])
		}
		end := min(l.end, int32(hits))
		if int(at) < r.shared {
			end = min(end, int32(r.shared))
		}
		for i := l.first; at < end; i = p.store.at(i).above {
			at = min(end, p.store.at(i).hi)
			visit(i, at)
		}
	}
}

// hasRoom reports whether so many free blocks are enough for r to have the first blocks
// of its list, hits of which are cached: a chunk of them and the whole.
func (p *segments) hasRoom(r *request, hits, chunk, whole, free int) bool {
	need := max(chunk, whole) - hits
	if need > free {
		return false
	}
	p.visitHits(r, hits, func(i segmentID, end int32) {
		if s := p.store.at(i); s.holders == 0 {
			need += int(end - s.lo)
		}
	})
	return need <= free
}

// holdHits makes r a holder of its first blocks, which are cached.
func (p *segments) holdHits(r *request, hits int) {
	p.visitHits(r, hits, func(i segmentID, end int32) {
		if end < p.store.at(i).hi {
			p.splitSegment(i, end)
		}
		s := p.store.at(i)
		if s.holders == 0 {
			p.store.unlink(i)
			p.free -= s.size()
			p.cached -= s.size()
		}
		s.holders++
		r.holdings = append(r.holdings, holding{i, end - s.lo})
	})
	r.blocks, r.named = hits, hits
}

// splitSegment makes the blocks of i from at on a segment of their own.
func (p *segments) splitSegment(i segmentID, at int32) segmentID {
	upper := p.store.split(i, at)
	s := p.store.at(i)
	if s.owner.isKnown() {
		p.insertAbove(p.layerOf(s.owner), i, upper)
	}
	return upper
}

// takeBlocks takes what r lacks of the first blocks of its list and reports whether
// there was enough.
func (p *segments) takeBlocks(r *request, blocks int) (enough bool) {
	n := blocks - r.blocks
	enough = n <= p.free
	if !enough {
		if p.core.rules.WholeAllocation {
			return false
		}
		n = p.free
	}
	p.free -= n
	r.blocks += n
	blank := min(n, p.blank)
	p.blank -= blank
	for n -= blank; n > 0; {
		n -= p.evictBlocks(int32(n))
	}
	return enough
}

// evictBlocks takes up to n blocks from the front of the queue.
func (p *segments) evictBlocks(n int32) int {
	i := p.store.oldest
	s := p.store.at(i)
	n = min(n, s.hi-s.lo)
	s.hi -= n
	isEmpty := s.hi == s.lo
	if s.owner != unnamedBlocks {
		p.cached -= int(n)
	}
	if s.owner.isKnown() {
		p.forgetBlocks(i, n)
	}
	if isEmpty {
		p.store.unlink(i)
		p.store.drop(i)
	}
	return int(n)
}

// nameBlocks makes the first blocks of r, which holds them, ones that can be found.
func (p *segments) nameBlocks(r *request, blocks int) {
	at := int32(r.named)
	shared := min(blocks, r.shared)
	if int(at) < shared {
		for k := p.tree.Index(r.path, int(at)); int(at) < shared; k++ {
			id := r.path[k]
			l, isNew := p.nodes.Put(id)
			if isNew {
				*l = emptyLayer(p.tree.Start(id))
			}
			end := min(p.tree.End(id), int32(shared))
			p.nameSpan(r, l, nodeOwner(id), [2]int32{at, end})
			at = end
		}
	}
	if int(at) < blocks {
		if r.own.end == 0 {
			r.own = emptyLayer(int32(r.shared))
		}
		p.nameSpan(r, &r.own, ownOwner(r.slot), [2]int32{at, int32(blocks)})
	}
	r.named = blocks
}

// nameSpan makes blocks of r ones that can be found in a layer: as copies, as far as
// there are others.
func (p *segments) nameSpan(r *request, l *layer, of owner, span [2]int32) {
	if at, end := span[0], min(span[1], l.end); at < end {
		i := p.store.add(segment{owner: of, lo: at, hi: end, holders: 1, isCopy: true, below: noSegment, above: noSegment})
		p.appendCopy(l, i)
		r.holdings = append(r.holdings, holding{i, end - at})
		span[0] = end
	}
	if span[0] == span[1] {
		return
	}
	p.setEnd(l, of, span[1])
	if p.extendLast(r, l, span) {
		return
	}
	i := p.store.add(segment{owner: of, lo: span[0], hi: span[1], holders: 1, below: l.last, above: noSegment})
	if l.last == noSegment {
		l.first = i
	} else {
		p.store.at(l.last).above = i
	}
	l.last = i
	r.holdings = append(r.holdings, holding{i, span[1] - span[0]})
}

// extendLast makes blocks part of the last segment of a layer, if r alone holds that and
// has no other blocks after it.
func (p *segments) extendLast(r *request, l *layer, span [2]int32) bool {
	if l.last == noSegment || len(r.holdings) == 0 {
		return false
	}
	h := &r.holdings[len(r.holdings)-1]
	s := p.store.at(l.last)
	if h.segment != l.last || s.holders != 1 || s.hi != span[0] || s.hi-s.lo != h.blocks {
		return false
	}
	s.hi = span[1]
	h.blocks = s.hi - s.lo
	return true
}

// Release gives back all blocks of s, last to first.
func (p *segments) Release(s slot) { p.releaseBlocks(&p.core.requests[s]) }

// stripBlocks takes all blocks from r, which may come back for those that can be found.
func (p *segments) stripBlocks(r *request) { p.releaseBlocks(r) }

func (p *segments) releaseBlocks(r *request) {
	if n := r.blocks - r.named; n > 0 {
		p.free += n
		if p.oneQueue {
			p.store.pushUnnamed(int32(n))
		} else {
			p.blank += n
		}
	}
	for k := len(r.holdings) - 1; k >= 0; k-- {
		p.releaseHolding(r.holdings[k])
	}
	r.holdings, r.blocks, r.named = r.holdings[:0], 0, 0
}

// releaseHolding takes a holder from blocks; those without any join the queue.
func (p *segments) releaseHolding(h holding) {
	p.pieces = p.store.appendPieces(p.pieces[:0], h)
	for k := len(p.pieces) - 1; k >= 0; k-- {
		s := p.store.at(p.pieces[k])
		if s.holders--; s.holders == 0 {
			p.free += s.size()
			p.cached += s.size()
			p.store.push(p.pieces[k])
		}
	}
}

// Forget makes the blocks that only s can name, which is gone, nobody's.
func (p *segments) Forget(s slot) {
	l := &p.core.requests[s].own
	if l.end == 0 {
		return
	}
	for _, first := range [...]segmentID{l.first, l.copies} {
		for i := first; i != noSegment; i = p.store.at(i).above {
			p.store.at(i).owner = nobody
		}
	}
	*l = layer{}
}
