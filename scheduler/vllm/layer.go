package vllm

import (
	"fmt"

	"github.com/replay-llm/replay/internal/invariant"
	"github.com/replay-llm/replay/scheduler"
)

// layer is what can be found of a node, or of the blocks that only one request can
// name. Blocks count from the start of the request.
type layer struct {
	end         int32     // of those that can be found; 0 where there is nothing
	first, last segmentID // that are found, in order, up to end
	copies      segmentID // that are found once these are evicted, by when they were named
}

func emptyLayer(start int32) layer {
	return layer{end: start, first: noSegment, last: noSegment, copies: noSegment}
}

// layerOf returns the layer of an owner that has one.
func (p *segments) layerOf(o owner) *layer {
	if n, ok := o.node(); ok {
		return p.nodes.Get(n)
	}
	return &p.core.requests[o.slot()].own
}

// insertAbove puts a segment after another of a layer, among those found or the copies.
func (p *segments) insertAbove(l *layer, below, i segmentID) {
	b, s := p.store.at(below), p.store.at(i)
	s.below, s.above, s.isCopy = below, b.above, b.isCopy
	if b.above != noSegment {
		p.store.at(b.above).below = i
	} else if !b.isCopy {
		l.last = i
	}
	b.above = i
}

// removeSegment takes a segment out of its layer.
func (p *segments) removeSegment(l *layer, i segmentID) {
	s := p.store.at(i)
	switch {
	case s.below != noSegment:
		p.store.at(s.below).above = s.above
	case s.isCopy:
		l.copies = s.above
	default:
		l.first = s.above
	}
	if s.above != noSegment {
		p.store.at(s.above).below = s.below
	} else if !s.isCopy {
		l.last = s.below
	}
}

// appendCopy puts i behind all other copies of a layer.
func (p *segments) appendCopy(l *layer, i segmentID) {
	if l.copies == noSegment {
		l.copies = i
		return
	}
	last := l.copies
	for p.store.at(last).above != noSegment {
		last = p.store.at(last).above
	}
	p.store.at(last).above = i
	p.store.at(i).below = last
}

// forgetBlocks takes n blocks from a layer, evicted from the end of segment i. Where
// there are copies of them these are found in their place.
func (p *segments) forgetBlocks(i segmentID, n int32) {
	s := p.store.at(i)
	of, from := s.owner, s.hi
	l := p.layerOf(of)
	switch {
	case s.isCopy:
	case l.copies == noSegment:
		p.setEnd(l, of, from)
	default:
		p.useCopies(l, i, from+n)
	}
	if s = p.store.at(i); s.hi > s.lo {
		return
	}
	p.removeSegment(l, i)
	if node, ok := of.node(); ok && l.first == noSegment {
		p.nodes.Delete(node)
	}
}

// useCopies has copies found in place of the blocks that segment i had up to the given
// one; those without can be found no more.
func (p *segments) useCopies(l *layer, i segmentID, to int32) {
	of, from := p.store.at(i).owner, p.store.at(i).hi
	for to > from {
		c, at := p.findCopy(l, from, to)
		if c != noSegment {
			p.promoteCopy(l, i, c, at)
		} else {
			p.setEnd(l, of, at)
		}
		to = at
	}
}

// findCopy returns the first copy that has block to-1, and from where on it is the first
// to have them; noSegment, and from where on none has any.
func (p *segments) findCopy(l *layer, from, to int32) (segmentID, int32) {
	for i := l.copies; i != noSegment; i = p.store.at(i).above {
		switch s := p.store.at(i); {
		case s.lo < to && to <= s.hi:
			if invariant.Enabled && s.hi != to {
				panic(fmt.Sprintf("copy %d of blocks %d to %d is the next of block %d", i, s.lo, s.hi, to-1))
			}
			return i, max(from, s.lo)
		case s.hi < to:
			from = max(from, s.hi)
		}
	}
	return noSegment, from
}

// promoteCopy makes the last blocks of copy c, from the given one on, ones that are found,
// after those of segment i. A copy is found from its end on: as long as one of a block that
// was named before it exists, there is such a one of the block before, too.
func (p *segments) promoteCopy(l *layer, i, c segmentID, from int32) {
	if p.store.at(c).lo < from {
		c = p.splitSegment(c, from)
	}
	p.removeSegment(l, c)
	p.insertAbove(l, i, c)
}

// setEnd notes up to which block a layer can be found.
func (p *segments) setEnd(l *layer, of owner, end int32) {
	l.end = end
	n, ok := of.node()
	if ok && p.counted {
		out := p.core.events.out
		out.KV = append(out.KV, scheduler.KVChange{Node: n, Blocks: end - p.tree.Start(n)})
	}
}
