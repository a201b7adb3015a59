package custom

import (
	"fmt"
	"sort"

	"github.com/replay-llm/replay/internal/invariant"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// blockID is the index of a KV block in the pool.
type blockID int32

const noBlock blockID = -1

// block is one KV block.
type block struct {
	older, newer blockID // links of the queue of free named blocks
	later        blockID // the next block of equal content, in the order of naming
	holders      int32
	named        bool // lookups can find the block, or a copy of the block, by name
	name         blocks.Name
}

// pool is the KV blocks of a worker, managed like in vLLM: a request has a list of blocks, and lookups find full
// blocks by their content. Free blocks without a name are allocated first, then the blocks that were released first.
//
// A request that uses a block also uses all preceding blocks of its prompt, and releases them after it. So lookups
// find the first blocks of a prompt.
type pool struct {
	core        *Core
	all         []block
	free        int       // number of free blocks
	cached      int       // number of free blocks that lookups can find
	fresh       int       // number of blocks that were never used
	blank       []blockID // free blocks that were used and have no name
	first, last blockID   // ends of the queue
	found       map[blocks.Name]blockID
}

func newPool(c *Core) pool {
	return pool{core: c, free: c.cfg.Blocks, fresh: c.cfg.Blocks, first: noBlock, last: noBlock, found: make(map[blocks.Name]blockID)}
}

// nameOf returns the name of block i of r.
func (p *pool) nameOf(r *request, i int) blocks.Name {
	return blocks.NameOf(p.core.cfg.Tree, r.path, r.shared, sim.RequestID(r.number), i)
}

// countHits returns how many of the first blocks of r lookups can find, excluding the block with its last token.
func (p *pool) countHits(r *request) int {
	most := (r.known() - 1) / p.core.cfg.BlockTokens
	if !p.core.cfg.PrefixCaching || r.times == 0 && r.shared == 0 {
		return 0
	}
	return sort.Search(most, func(i int) bool {
		_, ok := p.found[p.nameOf(r, i)]
		return !ok
	})
}

// countNeed returns how many free blocks r needs until the given number of its tokens is computed. A waiting request
// starts with its first hits blocks, which are cached.
func (p *pool) countNeed(r *request, tokens, hits int) int {
	size := p.core.cfg.BlockTokens
	need := (tokens+size-1)/size - len(r.held) - hits
	for i := hits - 1; i >= 0; i-- {
		if p.all[p.found[p.nameOf(r, i)]].holders > 0 {
			break // the preceding blocks are in use too
		}
		need++
	}
	return max(need, 0)
}

// holdHits adds r as a holder of its first hits blocks, which are cached.
func (p *pool) holdHits(r *request, hits int) {
	for i := range hits {
		b := p.found[p.nameOf(r, i)]
		k := &p.all[b]
		if k.holders == 0 {
			p.unlink(b)
			p.free--
			p.cached--
		}
		k.holders++
		r.held = append(r.held, b)
	}
	r.named = hits
}

// cover allocates blocks for the computed tokens of r, and names its full blocks so that lookups can find them.
func (p *pool) cover(r *request) {
	size := p.core.cfg.BlockTokens
	for len(r.held) < (r.computed+size-1)/size {
		r.held = append(r.held, p.takeBlock())
	}
	if !p.core.cfg.PrefixCaching {
		return
	}
	for ; r.named < r.computed/size; r.named++ {
		p.setName(r.held[r.named], p.nameOf(r, r.named))
	}
}

// takeBlock returns a free block with one holder. There must be a free block.
func (p *pool) takeBlock() blockID {
	p.free--
	if p.fresh > 0 {
		p.fresh--
		p.all = append(p.all, block{older: noBlock, newer: noBlock, later: noBlock, holders: 1})
		return blockID(len(p.all) - 1)
	}
	if n := len(p.blank); n > 0 {
		b := p.blank[n-1]
		p.blank = p.blank[:n-1]
		p.all[b].holders = 1
		return b
	}
	b := p.first
	p.unlink(b)
	p.cached--
	p.evict(b)
	p.all[b].holders = 1
	return b
}

// setName gives b a name, so that lookups can find it. Lookups find the first block of equal content.
func (p *pool) setName(b blockID, name blocks.Name) {
	p.all[b].name, p.all[b].named, p.all[b].later = name, true, noBlock
	at, ok := p.found[name]
	if !ok {
		p.found[name] = b
		p.recordResidency(name, 1)
		return
	}
	for p.all[at].later != noBlock {
		at = p.all[at].later
	}
	p.all[at].later = b
}

// evict removes the name of b. Lookups then find the next block of equal content.
func (p *pool) evict(b blockID) {
	k := &p.all[b]
	k.named = false
	switch at := p.found[k.name]; {
	case at != b:
		for p.all[at].later != b {
			at = p.all[at].later
		}
		p.all[at].later = k.later
	case k.later != noBlock:
		p.found[k.name] = k.later
	default:
		delete(p.found, k.name)
		p.recordResidency(k.name, 0)
	}
}

// recordResidency reports how many first blocks of a prompt node are cached: the blocks before the named one, and by
// blocks more. by is 1 if the named block is cached now, and 0 if it was evicted.
func (p *pool) recordResidency(name blocks.Name, by int32) {
	if node, i, ok := name.Node(); ok && p.core.cfg.Told {
		p.core.out.KV = append(p.core.out.KV, scheduler.KVChange{Node: node, Blocks: i + by})
	}
}

// release releases all blocks of r, last to first.
func (p *pool) release(r *request) {
	for i := len(r.held) - 1; i >= 0; i-- {
		p.dropHolder(r.held[i])
	}
	r.held, r.named = r.held[:0], 0
}

// dropHolder removes a holder from b. A block without holders is free.
func (p *pool) dropHolder(b blockID) {
	k := &p.all[b]
	if k.holders--; k.holders > 0 {
		return
	}
	p.free++
	if !k.named {
		p.blank = append(p.blank, b)
		return
	}
	p.cached++
	k.older, k.newer = p.last, noBlock
	if p.last == noBlock {
		p.first = b
	} else {
		p.all[p.last].newer = b
	}
	p.last = b
}

// unlink removes b from the queue.
func (p *pool) unlink(b blockID) {
	k := &p.all[b]
	if k.older == noBlock {
		p.first = k.newer
	} else {
		p.all[k.older].newer = k.newer
	}
	if k.newer == noBlock {
		p.last = k.older
	} else {
		p.all[k.newer].older = k.older
	}
}

// checkBlocks panics if blocks are lost or have an unknown holder.
func (c *Core) checkBlocks() {
	if !invariant.Enabled {
		return
	}
	holders := make(map[blockID]int32)
	for _, r := range c.running {
		for _, b := range r.held {
			holders[b]++
		}
	}
	cached := 0
	for i := range c.pool.all {
		switch k := &c.pool.all[i]; {
		case k.holders != holders[blockID(i)]:
			panic(fmt.Sprintf("block %d has %d holders, and %d requests hold it", i, k.holders, holders[blockID(i)]))
		case k.holders == 0 && k.named:
			cached++
		}
	}
	if free := c.cfg.Blocks - len(holders); c.pool.free != free || c.pool.cached != cached {
		panic(fmt.Sprintf("block pool: %d free and %d cached, counted %d and %d", c.pool.free, c.pool.cached, free, cached))
	}
}

// Nodes calls need with every prompt node with cached blocks.
func (c *Core) Nodes(need func(prompt.NodeID)) {
	for i := range c.pool.all {
		if k := &c.pool.all[i]; k.named {
			if n, _, ok := k.name.Node(); ok {
				need(n)
			}
		}
	}
}
