package vllm

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/vllm/residency"
)

// grouped is a device from which several groups of layers take their blocks, as vLLM's
// hybrid KV cache manager has them. Of each block of tokens a request holds one for each
// group: r.held[i*groups+g]. Groups with windows have let go of their first r.passed, which
// are noBlock.
type grouped struct {
	deviceOnly
	windows  Windows
	from, to int // the groups from one up to another have windows
}

func newGrouped(c *Core) *grouped {
	w := c.cfg.Windows
	d := newDevice(c)
	d.groups, d.watched = w.Groups+w.Full, w.Watched()
	if c.cfg.Capture == scheduler.CaptureResidency {
		d.nodes = residency.New(c.cfg.Tree, d.groups, d.watched)
	}
	return &grouped{deviceOnly: deviceOnly{device: d}, windows: w, from: w.First(), to: w.First() + w.Groups}
}

// keyOf returns the key of what group g has of block i of r.
func (p *grouped) keyOf(r *request, i, g int) int64 {
	if i < r.shared {
		return p.device.keyOf(r, i)*int64(p.groups) + int64(g)
	}
	return ownKey(r.id, i*p.groups+g)
}

// findBlock returns the block that is found for what group g has of block i of r, or
// noBlock.
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

// has reports whether block i of r can be found in the groups from one up to another.
func (p *grouped) has(r *request, i, from, to int) bool {
	for g := from; g < to; g++ {
		if p.findBlock(r, i, g) == noBlock {
			return false
		}
	}
	return true
}

// Cached returns how many of the first blocks of s are cached: all of them in the groups
// without windows, and in those with windows the ones that the next token attends to.
func (p *grouped) Cached(s slot) int {
	c, r := p.core, &p.core.requests[s]
	n, most := 0, c.findableBlocks(r)
	for n < most && p.has(r, n, 0, p.from) && p.has(r, n, p.to, p.groups) {
		n++
	}
	return p.inWindows(r, n)
}

// inWindows returns how many of the first blocks of r, at most so many, groups with
// windows have cached as far as the token after them attends to them.
func (p *grouped) inWindows(r *request, most int) int {
	if p.windows.Chunked {
		n := p.windows.Passed(most<<p.core.shift) >> p.core.shift
		for n < most && p.has(r, n, p.from, p.to) {
			n++
		}
		return n
	}
	want := (p.windows.Tokens - 1 + p.core.mask) >> p.core.shift
	run := 0
	for i := most - 1; i >= 0; i-- {
		if !p.has(r, i, p.from, p.to) {
			run = 0
		} else if run++; run == want {
			return i + want
		}
	}
	return run
}

// firstHeld returns the first of r's hits, so many, that groups with windows need.
func (p *grouped) firstHeld(hits int) int {
	return min(hits, p.windows.Passed(hits<<p.core.shift)>>p.core.shift)
}

// hasRoom reports whether so many free blocks are enough for r to have the first blocks
// of its list, hits of which are cached: a chunk of them and the whole, of which groups
// with windows need some at a time.
func (p *grouped) hasRoom(r *request, hits, chunk, whole, free int) bool {
	windowed := max(0, p.core.cfg.admittedBlocks(whole)-hits)
	need := max(p.groups*(chunk-hits), p.windows.Full*(whole-hits)+p.windows.Groups*windowed)
	return need <= free && need+p.idleHits(r, hits) <= free
}

// idleHits returns how many blocks of r's hits nobody holds.
func (p *grouped) idleHits(r *request, hits int) (idle int) {
	first := p.firstHeld(hits)
	for g := range p.groups {
		for i := p.skipped(g, first); i < hits; i++ {
			if p.isIdle(p.findBlock(r, i, g)) {
				idle++
			}
		}
	}
	return idle
}

// skipped returns n for groups with windows, which do without their first n blocks.
func (p *grouped) skipped(g, n int) int {
	if p.from <= g && g < p.to {
		return n
	}
	return 0
}

// holdHits makes r a holder of its first blocks, which are cached.
func (p *grouped) holdHits(r *request, hits int) {
	r.blocks, r.named, r.passed = hits, hits, p.firstHeld(hits)
	r.held = r.held[:0]
	for range hits * p.groups {
		r.held = append(r.held, noBlock)
	}
	for g := range p.groups {
		for i := p.skipped(g, r.passed); i < hits; i++ {
			b := p.findBlock(r, i, g)
			p.holdBlock(b)
			r.held[i*p.groups+g] = b
		}
	}
}

// takeBlocks takes what r lacks of the first blocks of its list, for one group after the
// other, and reports whether there was enough. Otherwise it takes none.
func (p *grouped) takeBlocks(r *request, blocks int) (enough bool) {
	if (blocks-r.blocks)*p.groups > p.free {
		return false
	}
	for range (blocks - r.blocks) * p.groups {
		r.held = append(r.held, noBlock)
	}
	for g := range p.groups {
		for i := r.blocks; i < blocks; i++ {
			r.held[i*p.groups+g] = p.takeBlock()
		}
	}
	r.blocks = blocks
	return true
}

// nameBlocks makes the first blocks of r ones that can be found.
func (p *grouped) nameBlocks(r *request, blocks int) {
	for g := range p.groups {
		for i := max(r.named, p.skipped(g, r.passed)); i < blocks; i++ {
			p.setKey(r, i, g)
		}
	}
	r.named = max(r.named, blocks)
}

// setKey makes what group g has of block i of r a block that can be found.
func (p *grouped) setKey(r *request, i, g int) {
	b, key := r.held[i*p.groups+g], p.keyOf(r, i, g)
	isCopy := false
	if key >= 0 {
		isCopy = p.setSharedKey(b, key)
	} else {
		var first blockID
		if first, isCopy = p.firstOwn[key]; !isCopy {
			first = b
			p.firstOwn[key] = b
		}
		p.addCopy(first, b) // in a ring even if alone, whose last eviction forgets the key
		p.all[b].key = key
	}
	if p.nodes != nil && !isCopy {
		p.nodes.Note(p.core.events.out, key, 1)
	}
	if p.told {
		p.core.events.noteStored(r, i, isCopy || g != p.watched)
	}
}

// passedBlocks returns how many of the first blocks of r its layers with windows have
// passed once so many tokens are computed.
func (p *grouped) passedBlocks(r *request, computed int) int {
	return min(p.windows.Passed(computed)>>p.core.shift, r.blocks)
}

// dropBlocks lets go of the first blocks of r, so many, in groups with windows, last to
// first.
func (p *grouped) dropBlocks(r *request, n int) {
	for g := p.from; g < p.to; g++ {
		for i := n - 1; i >= r.passed; i-- {
			p.letGoBlock(r.held[i*p.groups+g])
			r.held[i*p.groups+g] = noBlock
		}
	}
	r.passed = n
}

// calmFor returns in how many plans, after the one that has just been made, the groups
// with windows let go of a block of r, which computes a token in each.
func (p *grouped) calmFor(r *request, lag int) int {
	return p.windows.Passing((r.passed+1)<<p.core.shift) + lag - r.computed
}

// Release gives back all blocks of s, group by group, last to first.
func (p *grouped) Release(s slot) { p.releaseBlocks(&p.core.requests[s]) }

func (p *grouped) releaseBlocks(r *request) {
	for g := range p.groups {
		for i := r.blocks - 1; i >= p.skipped(g, r.passed); i-- {
			p.letGoBlock(r.held[i*p.groups+g])
		}
	}
	r.held, r.blocks, r.named, r.passed = r.held[:0], 0, 0, 0
}

// stripBlocks takes all blocks from r.
func (p *grouped) stripBlocks(r *request) { p.releaseBlocks(r) }

var _ blocks.Pool = (*grouped)(nil)
