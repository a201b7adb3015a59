package vllm

import (
	"fmt"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/vllm/layers"
)

// layered is the KV blocks of several groups of layers as segments, for engines without observers of single blocks.
// layered behaves like grouped.
type layered struct {
	blocks.DeviceOnly
	grouping
	*supply
	named *layers.Pool
}

func newLayered(c *Core) *layered {
	p := &layered{grouping: newGrouping(c), supply: &c.supply}
	p.named = layers.New(p.Layout, c.cfg.Tree, c.supply.usable, c.rules.OneQueue, c.cfg.Capture == scheduler.CaptureResidency)
	return p
}

// sequenceOf returns the blocks of r in the groups.
func (p *layered) sequenceOf(r *request) *layers.Sequence {
	if r.sequence == nil {
		r.sequence = new(layers.Sequence)
	}
	r.sequence.Number, r.sequence.Path, r.sequence.Shared = r.rank.number, r.path, r.shared
	return r.sequence
}

// Cached returns how many of the first blocks of s are cached.
func (p *layered) Cached(s slot) int {
	r := &p.core.requests[s]
	return p.named.Cached(p.sequenceOf(r), p.core.findableBlocks(r))
}

// hasRoom returns the same as grouped.hasRoom.
func (p *layered) hasRoom(r *request, hits, chunk, whole, free int) bool {
	need := p.countNeeded(hits, chunk, whole)
	return need <= free && need+p.named.CountIdle(p.sequenceOf(r), p.FirstHeld(hits), hits) <= free
}

// holdHits adds r as a holder of its first hits blocks, which are cached.
func (p *layered) holdHits(r *request, hits int) {
	r.blocks, r.named, r.passed = hits, hits, p.FirstHeld(hits)
	idle := p.named.Hold(p.sequenceOf(r), r.passed, hits)
	p.free -= idle
	p.cached -= idle
}

// takeBlocks allocates the missing blocks of the first blocks of r in all groups, and reports whether there were
// enough. If there are too few free blocks, takeBlocks allocates none.
func (p *layered) takeBlocks(r *request, blocks int) (enough bool) {
	n := (blocks - r.blocks) * p.All
	if n > p.free {
		return false
	}
	p.free -= n
	r.blocks = blocks
	p.cached -= p.named.Take(n, p.core.events.Out)
	return true
}

// nameBlocks names the first blocks of r, so that they can be found.
func (p *layered) nameBlocks(r *request, blocks int) {
	p.named.Name(r.sequence, r.passed, r.named, blocks, p.core.events.Out)
	r.named = max(r.named, blocks)
}

// dropBlocks releases the first n blocks of r in groups with windows, last to first.
func (p *layered) dropBlocks(r *request, n int) {
	free, cached := p.named.Drop(r.sequence, r.passed, n, r.named)
	p.free += free
	p.cached += cached
	r.passed = n
}

// Release releases all blocks of s, group by group, last to first.
func (p *layered) Release(s slot) { p.releaseBlocks(&p.core.requests[s]) }

// stripBlocks releases all blocks of r, which may find the named ones again later.
func (p *layered) stripBlocks(r *request) { p.releaseBlocks(r) }

func (p *layered) releaseBlocks(r *request) {
	free, cached := p.named.Release(p.sequenceOf(r), r.passed, r.blocks, r.named)
	p.free += free
	p.cached += cached
	r.blocks, r.named, r.passed = 0, 0, 0
}

// Forget drops the blocks that only s could find. The request s has left.
func (p *layered) Forget(s slot) { p.named.Forget(p.sequenceOf(&p.core.requests[s])) }

// Check panics if the counters of the pool do not agree.
func (p *layered) Check() {
	p.named.BeginCheck()
	unnamed := 0
	for k := range len(p.core.running) + len(p.core.kept) {
		r := p.core.holderAt(k)
		unnamed += p.named.CheckHeld(p.sequenceOf(r), r.passed, r.named, r.blocks)
	}
	held, free, cached := p.named.Check()
	if free != p.free || cached != p.cached || held+unnamed+free != p.usable {
		panic(fmt.Sprintf("segments of groups: %d held + %d of these without a name + %d free (%d counted) != %d, %d cached (%d counted)",
			held, unnamed, free, p.free, p.usable, cached, p.cached))
	}
}
