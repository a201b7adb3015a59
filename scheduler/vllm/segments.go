package vllm

import (
	"github.com/replay-llm/replay/internal/probe"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/vllm/segment"
	"github.com/replay-llm/replay/sim/prompt"
)

// segments is the KV blocks of an engine without observers of single blocks. A request finds, holds and releases a
// few segments, for any length of its prompt. segments behaves like device.
//
// A request that holds a block holds all preceding blocks of its prompt, and releases them after it. So lookups find
// the first blocks of a node, and evictions remove blocks from the end of a segment.
type segments struct {
	blocks.DeviceOnly
	*supply
	core  *Core
	tree  *prompt.Tree
	store segment.Store
	nodes probe.Table[prompt.NodeID, segment.Layer]
	// blank is the number of free blocks that are allocated before all blocks of the queue. Blank blocks were never
	// used or, unless there is one queue for all blocks, released without a name.
	blank    int
	oneQueue bool
	counted  bool         // changes of cached blocks are reported by node
	pieces   []segment.ID // scratch memory of releaseHolding
	counts   []int32      // scratch memory of Check, by segment
}

func newSegments(c *Core) *segments {
	return &segments{
		supply: &c.supply, core: c, tree: c.cfg.Tree, store: segment.NewStore(), blank: c.supply.usable,
		nodes: probe.New[prompt.NodeID, segment.Layer](prompt.None), oneQueue: c.rules.OneQueue,
		counted: c.cfg.Capture == scheduler.CaptureResidency,
	}
}

// Cached returns how many of the first blocks of s a lookup finds.
func (p *segments) Cached(s slot) int {
	r := &p.core.requests[s]
	most := p.core.findableBlocks(r)
	found := 0
	for _, id := range r.path {
		end := int(p.nodes.Get(id).End)
		if end == 0 {
			break
		}
		found = min(end, r.shared)
		if end < int(p.tree.End(id)) || found >= most {
			break
		}
	}
	if found == r.shared && r.own.End > 0 {
		found = int(r.own.End)
	}
	return min(found, most)
}

// layerAt returns the layer with block at of r, which is in element k of the path if it is not private. end is the end
// of the blocks in the layer that can be found, at most most.
func (p *segments) layerAt(r *request, k int, at, most int32) (l *segment.Layer, end int32) {
	if int(at) < r.shared {
		l = p.nodes.Get(r.path[k])
		return l, min(l.End, most, int32(r.shared))
	}
	return &r.own, min(r.own.End, most)
}

// hasRoom reports whether free blocks are enough for the first blocks of r, of which hits are cached: chunk blocks
// now, and whole blocks in total.
func (p *segments) hasRoom(r *request, hits, chunk, whole, free int) bool {
	most := max(chunk, whole)
	if most <= free {
		return true // even if all hits are free blocks
	}
	need := most - hits
	if need > free {
		return false
	}
	for at, k := int32(0), 0; int(at) < hits; k++ {
		l, end := p.layerAt(r, k, at, int32(hits))
		for i := l.First; at < end; i = p.store.At(i).Above {
			s := p.store.At(i)
			if at = min(end, s.Hi); s.Holders == 0 {
				need += int(at - s.Lo)
			}
		}
	}
	return need <= free
}

// holdHits adds r as a holder of its first hits blocks, which are cached. r gets a holding for each layer.
func (p *segments) holdHits(r *request, hits int) {
	for at, k := int32(0), 0; int(at) < hits; k++ {
		l, end := p.layerAt(r, k, at, int32(hits))
		p.store.At(l.First).Starts++
		r.holdings = append(r.holdings, segment.Holding{Segment: l.First, Blocks: end - at})
		below := segment.None
		for i := l.First; at < end; i = p.store.At(below).Above {
			at = p.holdSegment(i, end)
			if below == segment.None {
				below = i
				continue
			}
			if p.store.At(below).Rest = i; !p.store.Join(l, below, i) {
				below = i
			}
		}
	}
	r.blocks, r.named = hits, hits
}

// holdSegment adds a holder to the blocks of segment i up to end, and returns the end of these blocks. Later blocks
// become a separate segment.
func (p *segments) holdSegment(i segment.ID, end int32) int32 {
	if end < p.store.At(i).Hi {
		p.splitSegment(i, end)
	}
	s := p.store.At(i)
	if s.Holders == 0 {
		p.store.Unlink(i)
		p.free -= s.Size()
		p.cached -= s.Size()
	}
	s.Holders++
	return s.Hi
}

// splitSegment splits segment i before block at, and returns the new segment with the second part.
func (p *segments) splitSegment(i segment.ID, at int32) segment.ID {
	upper := p.store.Split(i, at)
	s := p.store.At(i)
	if s.Owner.IsKnown() {
		p.store.InsertAbove(p.layerOf(s.Owner), i, upper)
	}
	return upper
}

// takeBlocks allocates the missing blocks of the first blocks of r and reports whether there were enough.
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

// evictBlocks removes up to n blocks from the front of the queue, and returns their number.
func (p *segments) evictBlocks(n int32) int {
	i := p.store.Oldest
	s := p.store.At(i)
	n = min(n, s.Hi-s.Lo)
	s.Hi -= n
	isEmpty := s.Hi == s.Lo
	if s.Owner != segment.Unnamed {
		p.cached -= int(n)
	}
	if s.Owner.IsKnown() {
		p.forgetBlocks(i, n)
	}
	if isEmpty {
		p.store.Unlink(i)
		p.store.Drop(i)
	}
	return int(n)
}

// nameBlocks names the first blocks of r, which holds them, so that they can be found.
func (p *segments) nameBlocks(r *request, blocks int) {
	at := int32(r.named)
	shared := min(blocks, r.shared)
	if int(at) < shared {
		for k := p.tree.Index(r.path, int(at)); int(at) < shared; k++ {
			id := r.path[k]
			l, isNew := p.nodes.Put(id)
			if isNew {
				*l = segment.NewLayer(p.tree.Start(id))
			}
			end := min(p.tree.End(id), int32(shared))
			p.nameSpan(r, l, segment.NodeOwner(id), [2]int32{at, end})
			at = end
		}
	}
	if int(at) < blocks {
		if r.own.End == 0 {
			r.own = segment.NewLayer(int32(r.shared))
		}
		p.nameSpan(r, &r.own, segment.RequestOwner(r.slot), [2]int32{at, int32(blocks)})
	}
	r.named = blocks
}

// nameSpan names a span of blocks of r in a layer. Blocks that the layer has already become copies.
func (p *segments) nameSpan(r *request, l *segment.Layer, of segment.Owner, span [2]int32) {
	if at, end := span[0], min(span[1], l.End); at < end {
		i := p.store.Add(segment.Segment{Owner: of, Lo: at, Hi: end, Holders: 1, Starts: 1, IsCopy: true, Below: segment.None, Above: segment.None})
		p.store.AppendCopy(l, i)
		r.holdings = append(r.holdings, segment.Holding{Segment: i, Blocks: end - at})
		span[0] = end
	}
	if span[0] == span[1] {
		return
	}
	p.setEnd(l, of, span[1])
	if p.extendLast(r, l, span) {
		return
	}
	i := p.store.Add(segment.Segment{Owner: of, Lo: span[0], Hi: span[1], Holders: 1, Starts: 1, Below: l.Last, Above: segment.None})
	if l.Last == segment.None {
		l.First = i
	} else {
		p.store.At(l.Last).Above = i
	}
	l.Last = i
	r.holdings = append(r.holdings, segment.Holding{Segment: i, Blocks: span[1] - span[0]})
}

// extendLast adds blocks to the last segment of a layer, if r is its only holder and has no later blocks. extendLast
// reports whether the last segment was extended.
func (p *segments) extendLast(r *request, l *segment.Layer, span [2]int32) bool {
	if l.Last == segment.None || len(r.holdings) == 0 {
		return false
	}
	h := &r.holdings[len(r.holdings)-1]
	s := p.store.At(l.Last)
	if h.Segment != l.Last || s.Holders != 1 || s.Hi != span[0] || s.Hi-s.Lo != h.Blocks {
		return false
	}
	s.Hi = span[1]
	h.Blocks = s.Hi - s.Lo
	return true
}

// Release releases all blocks of s, last to first.
func (p *segments) Release(s slot) { p.releaseBlocks(&p.core.requests[s]) }

// stripBlocks releases all blocks of r, which may find the named ones again later.
func (p *segments) stripBlocks(r *request) { p.releaseBlocks(r) }

func (p *segments) releaseBlocks(r *request) {
	p.release(r.blocks-r.named, r.holdings)
	r.holdings, r.blocks, r.named = r.holdings[:0], 0, 0
}

// releaseFence releases the blocks of f, last to first.
func (p *segments) releaseFence(f *fence) { p.release(f.unnamed, f.holdings) }

// release releases n unnamed blocks, and then the blocks of holdings, last to first.
func (p *segments) release(n int, holdings []segment.Holding) {
	if n > 0 {
		p.free += n
		if p.oneQueue {
			p.store.PushUnnamed(int32(n))
		} else {
			p.blank += n
		}
	}
	for k := len(holdings) - 1; k >= 0; k-- {
		p.releaseHolding(holdings[k])
	}
}

// releaseHolding removes a holder from blocks. Blocks without holders join the queue.
func (p *segments) releaseHolding(h segment.Holding) {
	p.store.At(h.Segment).Starts--
	p.pieces = p.store.AppendPieces(p.pieces[:0], h)
	for k := len(p.pieces) - 1; k >= 0; k-- {
		s := p.store.At(p.pieces[k])
		if s.Holders--; s.Holders == 0 {
			p.free += s.Size()
			p.cached += s.Size()
			p.store.Push(p.pieces[k])
		}
	}
}

// Forget drops the names of the blocks that only s could find. The request s has left.
func (p *segments) Forget(s slot) {
	l := &p.core.requests[s].own
	if l.End == 0 {
		return
	}
	for _, first := range [...]segment.ID{l.First, l.Copies} {
		for i := first; i != segment.None; i = p.store.At(i).Above {
			p.store.At(i).Owner = segment.Gone
		}
	}
	*l = segment.Layer{}
}
