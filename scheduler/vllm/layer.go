package vllm

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/vllm/segment"
)

// layerOf returns the layer of a known owner.
func (p *segments) layerOf(o segment.Owner) *segment.Layer {
	if n, ok := o.Node(); ok {
		return p.nodes.Get(n)
	}
	return &p.core.requests[o.Slot()].own
}

// forgetBlocks removes n blocks, evicted from the end of segment i, from their layer. Lookups find copies of the
// released blocks instead, if there are any.
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

// useCopies replaces the blocks of segment i up to block to by copies. Blocks without copies can no longer be found.
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

// promoteCopy makes lookups find the blocks of copy c from block from on, after the blocks of segment i. Copies are
// promoted from the end: if a named block has a copy, the block before it has one, too.
func (p *segments) promoteCopy(l *segment.Layer, i, c segment.ID, from int32) {
	if p.store.At(c).Lo < from {
		c = p.splitSegment(c, from)
	}
	p.store.Remove(l, c)
	p.store.InsertAbove(l, i, c)
	p.store.At(c).Starts++ // its holders may continue from a copy, not from the segment below; c never joins it
}

// setEnd sets the end of the blocks of a layer that can be found.
func (p *segments) setEnd(l *segment.Layer, of segment.Owner, end int32) {
	l.End = end
	n, ok := of.Node()
	if ok && p.counted {
		out := p.core.events.Out
		out.KV = append(out.KV, scheduler.KVChange{Node: n, Blocks: end - p.tree.Start(n)})
	}
}
