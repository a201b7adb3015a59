package vllm

import (
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/vllm/events"
	"github.com/replay-llm/replay/scheduler/vllm/windows"
)

// grouping is the groups of layers of a core, which allocate their blocks from one pool as in vLLM's hybrid KV cache
// manager. A request holds one block per group for each block of tokens. Groups with windows have released its first
// r.passed blocks.
type grouping struct {
	windows.Layout
	core *Core
}

func newGrouping(c *Core) grouping { return grouping{windows.NewLayout(c.cfg.Windows, c.shift), c} }

// countNeeded returns the number of KV blocks that a request needs for its first blocks, of which hits are cached.
// The number is the larger of the blocks of all groups for chunk, and of the blocks for whole.
func (p *grouping) countNeeded(hits, chunk, whole int) int {
	windowed := max(0, p.core.cfg.AdmittedBlocks(whole)-hits)
	return max(p.All*(chunk-hits), p.Windows.Full*(whole-hits)+p.Windows.Groups*windowed)
}

// passedBlocks returns how many of the first blocks of r are before the windows after the given number of computed
// tokens.
func (p *grouping) passedBlocks(r *request, computed int) int {
	return min(p.Windows.Passed(computed)>>p.Shift, r.blocks)
}

// calmFor returns the number of plans after the current plan until groups with windows release a block of r, which
// computes a token in each plan.
func (p *grouping) calmFor(r *request, lag int) int {
	return p.Windows.Passing((r.passed+1)<<p.Shift) + lag - r.computed
}

// groupPool is a pool of KV blocks for several groups of layers.
type groupPool interface {
	pool
	passedBlocks(r *request, computed int) int
	calmFor(r *request, lag int) int
	// dropBlocks releases the first n blocks of r in groups with windows, last to first.
	dropBlocks(r *request, n int)
}

// grouped is a device with blocks of several groups of layers. r.held[i*groups+g] is block i of group g, or noBlock
// if a group with windows has released it.
type grouped struct {
	deviceOnly
	grouping
}

func newGrouped(c *Core) *grouped {
	d := newDevice(c)
	p := &grouped{deviceOnly: deviceOnly{device: d}, grouping: newGrouping(c)}
	d.groups, d.watched = p.All, c.cfg.Windows.Watched()
	return p
}

// keyOf returns the key for block i of group g of r.
func (p *grouped) keyOf(r *request, i, g int) int64 {
	if i < r.shared {
		return p.device.keyOf(r, i)*int64(p.All) + int64(g)
	}
	return events.OwnKey(r.id, i*p.All+g)
}

// findBlock returns the block that a lookup finds for block i of group g of r, or noBlock.
func (p *grouped) findBlock(r *request, i, g int) blockID {
	key := p.keyOf(r, i, g)
	if key >= 0 {
		return p.findShared(key)
	}
	if b, ok := p.firstOwn[key]; ok {
		return b
	}
	return noBlock
}

// has reports whether a lookup finds block i of r in all groups from from up to to.
func (p *grouped) has(r *request, i, from, to int) bool {
	for g := from; g < to; g++ {
		if p.findBlock(r, i, g) == noBlock {
			return false
		}
	}
	return true
}

// Cached returns how many of the first blocks of s are cached. Groups without windows must have all of these blocks,
// and groups with windows the blocks that the next token attends to.
func (p *grouped) Cached(s slot) int {
	c, r := p.core, &p.core.requests[s]
	n, most := 0, c.findableBlocks(r)
	for n < most && p.has(r, n, 0, p.From) && p.has(r, n, p.To, p.All) {
		n++
	}
	return p.inWindows(r, n)
}

// inWindows returns the largest number of first blocks of r, at most most, for which groups with windows have the
// blocks that the next token attends to.
func (p *grouped) inWindows(r *request, most int) int {
	if p.Windows.Chunked {
		n := p.Windows.Passed(most<<p.core.shift) >> p.core.shift
		for n < most && p.has(r, n, p.From, p.To) {
			n++
		}
		return n
	}
	want := (p.Windows.Tokens - 1 + p.core.mask) >> p.core.shift
	run := 0
	for i := most - 1; i >= 0; i-- {
		if !p.has(r, i, p.From, p.To) {
			run = 0
		} else if run++; run == want {
			return i + want
		}
	}
	return run
}

// hasRoom reports whether free blocks are enough for the first blocks of r, of which hits are cached: chunk blocks
// now, and whole blocks in total. Groups with windows need only some of the blocks at a time.
func (p *grouped) hasRoom(r *request, hits, chunk, whole, free int) bool {
	need := p.countNeeded(hits, chunk, whole)
	return need <= free && need+p.idleHits(r, hits) <= free
}

// idleHits returns how many cached blocks of r have no holder.
func (p *grouped) idleHits(r *request, hits int) (idle int) {
	first := p.FirstHeld(hits)
	for g := range p.All {
		for i := p.Skip(g, first); i < hits; i++ {
			if p.isIdle(p.findBlock(r, i, g)) {
				idle++
			}
		}
	}
	return idle
}

// holdHits adds r as a holder of its first hits blocks, which are cached.
func (p *grouped) holdHits(r *request, hits int) {
	r.blocks, r.named, r.passed = hits, hits, p.FirstHeld(hits)
	r.held = r.held[:0]
	for range hits * p.All {
		r.held = append(r.held, noBlock)
	}
	for g := range p.All {
		for i := p.Skip(g, r.passed); i < hits; i++ {
			b := p.findBlock(r, i, g)
			p.holdBlock(b)
			r.held[i*p.All+g] = b
		}
	}
}

// takeBlocks allocates the missing blocks of the first blocks of r, group by group, and reports whether there were
// enough. If there are too few free blocks, takeBlocks allocates none.
func (p *grouped) takeBlocks(r *request, blocks int) (enough bool) {
	if (blocks-r.blocks)*p.All > p.free {
		return false
	}
	for range (blocks - r.blocks) * p.All {
		r.held = append(r.held, noBlock)
	}
	for g := range p.All {
		for i := r.blocks; i < blocks; i++ {
			r.held[i*p.All+g] = p.takeBlock()
		}
	}
	r.blocks = blocks
	return true
}

// nameBlocks names the first blocks of r, so that they can be found.
func (p *grouped) nameBlocks(r *request, blocks int) {
	for g := range p.All {
		for i := max(r.named, p.Skip(g, r.passed)); i < blocks; i++ {
			p.setKey(r, i, g)
		}
	}
	r.named = max(r.named, blocks)
}

// setKey names block i of group g of r, so that it can be found.
func (p *grouped) setKey(r *request, i, g int) {
	b, key := r.held[i*p.All+g], p.keyOf(r, i, g)
	isCopy := false
	if key >= 0 {
		isCopy = p.setSharedKey(b, key)
	} else {
		var first blockID
		if first, isCopy = p.firstOwn[key]; !isCopy {
			first = b
			p.firstOwn[key] = b
		}
		p.addCopy(first, b) // also a single block is in a ring, so that its eviction removes the key
		p.all[b].key = key
	}
	if p.told {
		p.core.events.NoteStored(r.names(), i, isCopy || g != p.watched)
	}
}

// dropBlocks releases the first n blocks of r in groups with windows, last to first.
func (p *grouped) dropBlocks(r *request, n int) {
	for g := p.From; g < p.To; g++ {
		for i := n - 1; i >= r.passed; i-- {
			p.dropHolder(r.held[i*p.All+g])
			r.held[i*p.All+g] = noBlock
		}
	}
	r.passed = n
}

// Release releases all blocks of s, group by group, last to first.
func (p *grouped) Release(s slot) { p.releaseBlocks(&p.core.requests[s]) }

func (p *grouped) releaseBlocks(r *request) {
	for g := range p.All {
		for i := r.blocks - 1; i >= p.Skip(g, r.passed); i-- {
			p.dropHolder(r.held[i*p.All+g])
		}
	}
	r.held, r.blocks, r.named, r.passed = r.held[:0], 0, 0, 0
}

// stripBlocks releases all blocks of r.
func (p *grouped) stripBlocks(r *request) { p.releaseBlocks(r) }

var _ blocks.Pool = (*grouped)(nil)
