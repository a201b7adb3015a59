package vllm

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/vllm/segment"
)

// layerOf returns the layer of an owner that has one.
func (p *segments) layerOf(o segment.Owner) *segment.Layer {
	if n, ok := o.Node(); ok {
		return p.nodes.Get(n)
	}
	return &p.core.requests[o.Slot()].own
}

// forgetBlocks takes n blocks from a layer, evicted from the end of segment i. Where
// there are copies of them these are found in their place.
func (p *segments) forgetBlocks(i segment.ID, n int32) {
	s := p.store.At(i)
	of, from := s.Owner, s.Hi
	l := p.layerOf(of)
	switch {
	case s.IsCopy:
	case l.Copies == segment.None:
		p.setEnd(l, of, from)
	default:
		p.useCopies(l, i, from+n)
	}
	if s = p.store.At(i); s.Hi > s.Lo {
		return
	}
	p.store.Remove(l, i)
	if node, ok := of.Node(); ok && l.First == segment.None {
		p.nodes.Delete(node)
	}
}

// useCopies has copies found instead of the blocks that segment i had up to the given
// one; those without can be found no more.
func (p *segments) useCopies(l *segment.Layer, i segment.ID, to int32) {
	of, from := p.store.At(i).Owner, p.store.At(i).Hi
	for to > from {
		c, at := p.store.FindCopy(l, from, to)
		if c != segment.None {
			p.promoteCopy(l, i, c, at)
		} else {
			p.setEnd(l, of, at)
		}
		to = at
	}
}

// promoteCopy lets lookups find the last blocks of copy c, from the given one on, after those of segment i. A copy is
// found from its end on: as long as one of a block that was named before it exists, there is such a one of the block
// before, too.
func (p *segments) promoteCopy(l *segment.Layer, i, c segment.ID, from int32) {
	if p.store.At(c).Lo < from {
		c = p.splitSegment(c, from)
	}
	p.store.Remove(l, c)
	p.store.InsertAbove(l, i, c)
}

// setEnd notes up to which block a layer can be found.
func (p *segments) setEnd(l *segment.Layer, of segment.Owner, end int32) {
	l.End = end
	n, ok := of.Node()
	if ok && p.counted {
		out := p.core.events.Out
		out.KV = append(out.KV, scheduler.KVChange{Node: n, Blocks: end - p.tree.Start(n)})
	}
}
