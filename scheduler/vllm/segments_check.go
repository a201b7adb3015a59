package vllm

import (
	"fmt"
	"slices"
)

// Check holds the pool's accounts against each other.
func (p *segments) Check() {
	p.counts = slices.Grow(p.counts[:0], len(p.store.all))[:len(p.store.all)]
	clear(p.counts)
	held, unnamed := 0, 0
	for k := range len(p.core.running) + len(p.core.kept) {
		r := p.core.holderAt(k)
		unnamed += r.blocks - r.named
		n := int32(0)
		for _, h := range r.holdings {
			n += h.blocks
			p.pieces = p.store.appendPieces(p.pieces[:0], h)
			for _, i := range p.pieces {
				p.counts[i]++
			}
		}
		if int(n) != r.named {
			panic(fmt.Sprintf("request %d: holdings of %d blocks, want the %d that can be found", r.id, n, r.named))
		}
	}
	for i, n := range p.counts {
		if n == 0 {
			continue
		}
		s := &p.store.all[i]
		if s.holders != n || s.size() <= 0 {
			panic(fmt.Sprintf("segment %d of %d blocks has %d holders, %d counted", i, s.size(), n, s.holders))
		}
		held += s.size()
	}
	queued, cached := p.blank, 0
	for i := p.store.oldest; i != noSegment; i = p.store.at(i).newer {
		s := p.store.at(i)
		if queued += s.size(); s.owner != unnamedBlocks {
			cached += s.size()
		}
		if s.holders != 0 || s.size() <= 0 {
			panic(fmt.Sprintf("segment %d of %d blocks in the queue has %d holders", i, s.size(), s.holders))
		}
	}
	if queued != p.free || cached != p.cached || held+unnamed+queued != p.usable {
		panic(fmt.Sprintf("segments: %d held + %d of these without a name + %d free (%d counted) != %d, %d cached (%d counted)",
			held, unnamed, queued, p.free, p.usable, cached, p.cached))
	}
	for n, l := range p.nodes.All() {
		p.checkLayer(l, nodeOwner(n), p.tree.Start(n))
	}
	for s := range p.core.requests {
		if r := &p.core.requests[s]; r.own.end > 0 {
			p.checkLayer(&r.own, ownOwner(slot(s)), int32(r.shared))
		}
	}
}

// holderAt returns a request that holds blocks: one that runs or, behind these, one whose blocks are kept.
func (c *Core) holderAt(k int) *request {
	if n := len(c.running); k >= n {
		return &c.requests[c.kept[k-n]]
	}
	return &c.requests[c.running[k]]
}

// checkLayer holds what can be found of a layer against its segments.
func (p *segments) checkLayer(l *layer, of owner, start int32) {
	if fault := p.layerFault(l, of, start); fault != "" {
		panic(fault)
	}
}

// layerFault returns where what can be found of a layer differs from its segments; "" where it does not.
func (p *segments) layerFault(l *layer, of owner, start int32) string {
	at, below := start, noSegment
	for i := l.first; i != noSegment; i = p.store.at(i).above {
		s := p.store.at(i)
		if s.owner != of || s.lo != at || s.isCopy || s.below != below {
			return fmt.Sprintf("segment %d of owner %d: blocks %d to %d after %d, want it to go on from %d: %+v", i, of, s.lo, s.hi, below, at, *s)
		}
		at, below = s.hi, i
	}
	if at != l.end || below != l.last {
		return fmt.Sprintf("owner %d: found up to block %d, %d counted; the last segment is %d, want %d", of, at, l.end, l.last, below)
	}
	below = noSegment
	for i := l.copies; i != noSegment; i = p.store.at(i).above {
		s := p.store.at(i)
		if s.owner != of || !s.isCopy || s.below != below || s.hi > l.end || s.lo < start {
			return fmt.Sprintf("copy %d of owner %d after %d, which is found up to %d: %+v", i, of, below, l.end, *s)
		}
		below = i
	}
	return ""
}
