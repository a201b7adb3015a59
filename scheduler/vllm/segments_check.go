package vllm

import (
	"fmt"
	"slices"

	"github.com/replay-llm/replay/scheduler/vllm/segment"
)

// Check panics if the counters of the pool do not agree.
func (p *segments) Check() { p.checkWith(nil) }

// checkWith panics if the counters do not agree, including the blocks that only the connector k holds; k may be nil.
func (p *segments) checkWith(k *connector) {
	p.counts = slices.Grow(p.counts[:0], len(p.store.All))[:len(p.store.All)]
	clear(p.counts)
	held, unnamed, aside := 0, 0, []slot(nil)
	if k != nil {
		for i := range k.fenced {
			p.countHolders(k.fenced[i].holdings)
			unnamed += k.fenced[i].unnamed
		}
		aside = k.aside
	}
	for _, all := range [...][]slot{p.core.running, p.core.kept, aside} {
		for _, s := range all {
			r := &p.core.requests[s]
			unnamed += r.blocks - r.named
			if n := p.countHolders(r.holdings); n != r.named {
				panic(fmt.Sprintf("request %d: holdings of %d blocks, expected the %d that can be found", r.id, n, r.named))
			}
		}
	}
	for i, n := range p.counts {
		if n == 0 {
			continue
		}
		s := &p.store.All[i]
		if s.Holders != n || s.Size() <= 0 {
			panic(fmt.Sprintf("segment %d of %d blocks has %d holders, %d counted", i, s.Size(), n, s.Holders))
		}
		held += s.Size()
	}
	queued, cached := p.store.CountQueued()
	if queued += p.blank; queued != p.free || cached != p.cached || held+unnamed+queued != p.usable {
		panic(fmt.Sprintf("segments: %d held + %d of these without a name + %d free (%d counted) != %d, %d cached (%d counted)",
			held, unnamed, queued, p.free, p.usable, cached, p.cached))
	}
	for n, l := range p.nodes.All() {
		p.checkLayer(l, segment.NodeOwner(n), p.tree.Start(n))
	}
	for s := range p.core.requests {
		if r := &p.core.requests[s]; r.own.End > 0 {
			p.checkLayer(&r.own, segment.RequestOwner(slot(s)), int32(r.shared))
		}
	}
}

// countHolders counts one holder for each segment of holdings, and returns the number of their blocks.
func (p *segments) countHolders(holdings []segment.Holding) (blocks int) {
	for _, h := range holdings {
		blocks += int(h.Blocks)
		if s := p.store.At(h.Segment); s.Starts < 1 {
			panic(fmt.Sprintf("segment %d has %d holdings, and one of %d blocks begins there", h.Segment, s.Starts, h.Blocks))
		}
		p.pieces = p.store.AppendPieces(p.pieces[:0], h)
		for _, i := range p.pieces {
			p.counts[i]++
		}
	}
	return blocks
}

// holderAt returns holder k of blocks: first running requests, then requests with kept blocks.
func (c *Core) holderAt(k int) *request {
	if n := len(c.running); k >= n {
		return &c.requests[c.kept[k-n]]
	}
	return &c.requests[c.running[k]]
}

// checkLayer panics if the blocks of a layer that can be found do not match its segments.
func (p *segments) checkLayer(l *segment.Layer, of segment.Owner, start int32) {
	if fault := p.store.Fault(l, of, start); fault != "" {
		panic(fault)
	}
}
