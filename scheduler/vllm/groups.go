package vllm

import (
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/vllm/events"
	"github.com/replay-llm/replay/scheduler/vllm/windows"
)

// grouping is the groups of layers of a core, which take their blocks from one pool as in vLLM's
// hybrid KV cache manager. Of each block of tokens a request holds one for each group. Groups with
// windows have released its first r.passed.
type grouping struct {
	windows.Layout
	core *Core
}

func newGrouping(c *Core) grouping { return grouping{windows.NewLayout(c.cfg.Windows, c.shift), c} }

// countNeeded returns the number of blocks that a request takes for the first blocks of its list, hits of which are
// cached: those of a chunk, and those of all groups for the whole list.
func (p *grouping) countNeeded(hits, chunk, whole int) int {
	windowed := max(0, p.core.cfg.AdmittedBlocks(whole)-hits)
	return max(p.All*(chunk-hits), p.Windows.Full*(whole-hits)+p.Windows.Groups*windowed)
}

// passedBlocks returns how many of the first blocks of r its layers with windows have
// passed once a number of tokens is computed.
func (p *grouping) passedBlocks(r *request, computed int) int {
	return min(p.Windows.Passed(computed)>>p.Shift, r.blocks)
}

// calmFor returns in how many plans, after the one that has just been made, the groups
// with windows released a block of r, which computes a token in each.
func (p *grouping) calmFor(r *request, lag int) int {
	return p.Windows.Passing((r.passed+1)<<p.Shift) + lag - r.computed
}

// groupPool is a pool of blocks of groups of layers.
type groupPool interface {
	pool
	passedBlocks(r *request, computed int) int
	calmFor(r *request, lag int) int
	// dropBlocks releases the first n blocks of r in groups with windows, last to first.
	dropBlocks(r *request, n int)
}

// grouped is a device from which several groups of layers take their blocks. Of block i a request
// has r.held[i*groups+g], which are noBlock where groups with windows have released them.
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

// keyOf returns the key of what group g has of block i of r.
func (p *grouped) keyOf(r *request, i, g int) int64 {
	if i < r.shared {
		return p.device.keyOf(r, i)*int64(p.All) + int64(g)
	}
	return events.OwnKey(r.id, i*p.All+g)
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
	for n < most && p.has(r, n, 0, p.From) && p.has(r, n, p.To, p.All) {
		n++
	}
	return p.inWindows(r, n)
}

// inWindows returns how many of the first n blocks of r, groups with
// windows have cached as far as the token after them attends to them.
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

// hasRoom reports whether n free blocks are enough for r to have the first blocks
// of its list, hits of which are cached: a chunk of them and the whole, of which groups
// with windows need some at a time.
func (p *grouped) hasRoom(r *request, hits, chunk, whole, free int) bool {
	need := p.countNeeded(hits, chunk, whole)
	return need <= free && need+p.idleHits(r, hits) <= free
}

// idleHits returns how many blocks of r's hits are free.
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

// holdHits makes r a holder of its first blocks, which are cached.
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

// takeBlocks takes the missing blocks of the first blocks of r's list, for one group after the other, and reports
// whether there were enough. Otherwise it takes none.
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

// nameBlocks makes the first blocks of r ones that can be found.
func (p *grouped) nameBlocks(r *request, blocks int) {
	for g := range p.All {
		for i := max(r.named, p.Skip(g, r.passed)); i < blocks; i++ {
			p.setKey(r, i, g)
		}
	}
	r.named = max(r.named, blocks)
}

// setKey makes what group g has of block i of r a block that can be found.
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
		p.addCopy(first, b) // in a ring even if alone: its last eviction forgets the key
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
			p.letGoBlock(r.held[i*p.All+g])
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
			p.letGoBlock(r.held[i*p.All+g])
		}
	}
	r.held, r.blocks, r.named, r.passed = r.held[:0], 0, 0, 0
}

// stripBlocks takes all blocks from r.
func (p *grouped) stripBlocks(r *request) { p.releaseBlocks(r) }

var _ blocks.Pool = (*grouped)(nil)
