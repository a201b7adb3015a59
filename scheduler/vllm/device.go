package vllm

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/vllm/events"
	"github.com/replay-llm/replay/scheduler/vllm/host"
	"github.com/replay-llm/replay/scheduler/vllm/places"
	"github.com/replay-llm/replay/scheduler/vllm/queue"
	"github.com/replay-llm/replay/scheduler/vllm/residency"
)

// blockID is the index of a KV block in the pool.
type blockID = host.Block

const noBlock blockID = -1

// unnamed is the key of a block that cannot be found.
const unnamed int64 = -1

// block is one KV block.
type block struct {
	place   uint32 // position in the queue of blocks without holders
	holders int32
	// later and earlier are the neighbors in the ring of blocks with equal content, in order of naming. later and
	// earlier are noBlock if there was no other block.
	later, earlier blockID
	// key identifies the content of the block: a position in the prompt tree, a key of a single request (below
	// unnamed), or unnamed.
	key int64
}

// device is the KV blocks of an engine as single blocks, with a queue of blocks without holders; the front is
// allocated next. A request holds a list of blocks.
type device struct {
	*supply
	core    *Core
	told    bool // events are captured
	all     []block
	fresh   int // number of blocks that were never used, which are allocated first
	queue   queue.Queue
	plain   []blockID // unnamed blocks without holders, if split
	split   bool      // unnamed blocks are allocated before all blocks of the queue
	ordered bool      // unnamed blocks are allocated before fresh blocks; blocks of the latest release come first, in the order of that release
	perNode int
	groups  int              // number of groups of layers; each group has a block for the same tokens
	watched int              // the group that events report
	nodes   *residency.Nodes // set if a router reads changes of cached nodes
	found   places.Table     // the first block, now or before, with the content at a position in the prompt tree
	// firstOwn maps keys of a single request to their first block, if several blocks have the key. A single block is
	// found by request.former.
	firstOwn map[int64]blockID
	counts   []int32 // scratch memory of noHolders
}

// leastGrowth is the minimum number of blocks by which the pool grows.
const leastGrowth = 1 << 12

func newDevice(c *Core) *device {
	return &device{
		supply: &c.supply, core: c,
		told:  c.cfg.Capture == scheduler.CaptureEvents,
		fresh: c.supply.usable,
		split: !c.rules.OneQueue, perNode: c.cfg.Tree.PerNode(), groups: 1, firstOwn: make(map[int64]blockID),
	}
}

// isIdle reports whether b has no holder.
func (p *device) isIdle(b blockID) bool { return p.all[b].holders == 0 }

// takeBlock allocates the next block. There must be a free block.
func (p *device) takeBlock() blockID {
	p.free--
	if p.fresh > 0 && (!p.ordered || len(p.plain) == 0) {
		p.fresh--
		if len(p.all) == cap(p.all) {
			p.all = slices.Grow(p.all, min(p.fresh+1, max(len(p.all), leastGrowth)))
		}
		p.all = append(p.all, block{later: noBlock, earlier: noBlock, holders: 1, key: unnamed})
		return blockID(len(p.all) - 1)
	}
	if n := len(p.plain); n > 0 {
		b := p.plain[n-1]
		p.plain = p.plain[:n-1]
		p.all[b].holders = 1
		return b
	}
	b := p.popBlock()
	p.all[b].holders = 1
	p.unnameBlock(b)
	return b
}

// appendTaken allocates the next n blocks and appends them to dst. There must be n free blocks.
func (p *device) appendTaken(dst []blockID, n int) []blockID {
	for ; n > 0 && p.fresh+len(p.plain) > 0; n-- {
		dst = append(dst, p.takeBlock())
	}
	key, alike := unnamed, int32(0) // key of the last of consecutively evicted blocks, and number of these blocks
	all := p.all
	for left := n; left > 0; {
		b, place := p.queue.Pop()
		k := &all[b]
		if k.holders != 0 || k.place != place {
			continue
		}
		left--
		dst, k.holders = append(dst, b), 1
		if k.key == key-1 && k.later == noBlock && alike > 0 && k.key >= 0 {
			key, k.key = k.key, unnamed
			alike++
			continue
		}
		p.noteEvicted(key, alike)
		if key, alike = k.key, 1; key < 0 || p.told || k.later != noBlock {
			p.unnameBlock(b)
			alike = 0
		}
		k.key = unnamed
	}
	p.noteEvicted(key, alike)
	p.free -= n
	return dst
}

// noteEvicted records the eviction of blocks with consecutive keys from key on; the last of them was evicted first.
func (p *device) noteEvicted(key int64, blocks int32) {
	if p.cached -= int(blocks); p.nodes != nil && blocks > 0 {
		p.nodes.NoteEvicted(p.core.events.Out, key, blocks)
	}
}

// unnameBlock removes the key of the evicted block b, so that it cannot be found.
func (p *device) unnameBlock(b blockID) {
	k := &p.all[b]
	if k.key == unnamed {
		return
	}
	left := k.later != noBlock && p.removeCopy(b)
	if p.told {
		content, group := p.parseGroup(k.key)
		p.core.events.NoteRemoved(content, left || group != p.watched)
	}
	if p.nodes != nil && !left {
		p.nodes.Note(p.core.events.Out, k.key, -1)
	}
	k.key = unnamed
	p.cached--
}

// popBlock removes the first block from the queue.
func (p *device) popBlock() blockID {
	for {
		if b, place := p.queue.Pop(); p.isQueued(b, place) {
			return b
		}
	}
}

// isQueued reports whether b is at the given position in the queue.
func (p *device) isQueued(b blockID, place uint32) bool {
	return p.all[b].holders == 0 && p.all[b].place == place
}

// holdBlock adds a holder to the named block b.
func (p *device) holdBlock(b blockID) {
	k := &p.all[b]
	if k.holders == 0 {
		p.free--
		p.cached--
	}
	k.holders++
}

// dropHolder removes a holder from b. Without holders, b joins the queue.
func (p *device) dropHolder(b blockID) {
	k := &p.all[b]
	if k.holders--; k.holders > 0 {
		return
	}
	p.free++
	if k.key == unnamed && p.split {
		p.plain = append(p.plain, b)
		return
	}
	if k.key != unnamed {
		p.cached++
	}
	if p.queue.IsFull() {
		k.holders = -1 // the block has no position yet
		p.queue.MakeRoom(p.isQueued, func(b blockID, place uint32) { p.all[b].place = place })
		k.holders = 0
	}
	k.place = p.queue.Push(b)
}

// dropHolders removes a holder from each block, last to first.
func (p *device) dropHolders(all []blockID) {
	blocks := p.all
	plain := len(p.plain)
	for i := len(all) - 1; i >= 0; i-- {
		k := &blocks[all[i]]
		if k.holders != 1 || k.key == unnamed || p.queue.IsFull() {
			p.dropHolder(all[i])
			continue
		}
		k.holders, k.place = 0, p.queue.Push(all[i])
		p.free++
		p.cached++
	}
	if p.ordered {
		slices.Reverse(p.plain[plain:])
	}
}

// setKey names b, which contains block i of r, so that it can be found. setKey reports whether other blocks have the
// same content.
func (p *device) setKey(r *request, i int, b blockID) (isCopy bool) {
	key := p.keyOf(r, i)
	if key >= 0 {
		return p.setSharedKey(b, key)
	}
	first := p.findBlock(r, i)
	if first != noBlock {
		p.addCopy(first, b)
		p.firstOwn[key] = first
	}
	p.all[b].key = key
	return first != noBlock
}

// setSharedKey gives b a key in the prompt tree, so that it can be found. Of several blocks with equal content,
// lookups find the first named one.
func (p *device) setSharedKey(b blockID, key int64) (isCopy bool) {
	at := &p.found.Enter(key)[0]
	if isCopy = *at != 0 && p.all[*at-1].key == key; isCopy {
		p.addCopy(*at-1, b)
	} else {
		*at = b + 1
	}
	p.all[b].key = key
	return isCopy
}

// addCopy appends b to the ring that begins with first.
func (p *device) addCopy(first, b blockID) {
	f := &p.all[first]
	if f.later == noBlock {
		f.later, f.earlier = first, first
	}
	last := f.earlier
	p.all[b].later, p.all[b].earlier = first, last
	p.all[last].later, f.earlier = b, b
}

// removeCopy removes the evicted block b from its ring and reports whether other copies are left. Lookups then find
// the next copy.
func (p *device) removeCopy(b blockID) (left bool) {
	k := &p.all[b]
	next := k.later
	p.all[k.earlier].later, p.all[next].earlier = next, k.earlier
	k.later, k.earlier = noBlock, noBlock
	switch {
	case k.key >= 0:
		if at := &p.found.Enter(k.key)[0]; next != b && *at == b+1 {
			*at = next + 1
		}
	case next == b:
		delete(p.firstOwn, k.key)
	case p.firstOwn[k.key] == b:
		p.firstOwn[k.key] = next
	}
	return next != b
}

// findBlock returns the block that a lookup finds for block i of r, or noBlock.
func (p *device) findBlock(r *request, i int) blockID {
	key := p.keyOf(r, i)
	if key < 0 {
		return p.findOwn(r, i, key)
	}
	return p.findShared(key)
}

// findShared returns the block that a lookup finds for key, a position in the prompt tree, or noBlock.
func (p *device) findShared(key int64) blockID {
	if row := p.found.Row(key); len(row) > 0 && row[0] > 0 && p.all[row[0]-1].key == key {
		return row[0] - 1
	}
	return noBlock
}

// findOwn returns the block that a lookup finds for block i of r, which only r can have, or noBlock.
func (p *device) findOwn(r *request, i int, key int64) blockID {
	if len(p.firstOwn) > 0 {
		if b, ok := p.firstOwn[key]; ok {
			return b
		}
	}
	if i < len(r.former) && r.former[i] != noBlock && p.all[r.former[i]].key == key {
		return r.former[i]
	}
	return noBlock
}

// placesOf returns consecutive entries of found for blocks of r from i up to before, at least one entry. The blocks
// must have keys of the tree.
func (p *device) placesOf(r *request, i, before int) []blockID {
	row := p.found.Enter(p.keyOf(r, i))
	n := min(len(row), before-i, p.perNode-i%p.perNode)
	if p.core.drafts.ahead {
		n = 1
	}
	return row[:n]
}

// keyOf returns the key for the content of block i of r.
func (p *device) keyOf(r *request, i int) int64 {
	switch {
	case i >= r.shared:
		return events.OwnKey(r.id, i)
	case p.core.drafts.ahead: // the position of the next block, or of another block that begins with the same token
		i++
		return int64(p.core.cfg.Tree.Lead(r.path[i/p.perNode]))*int64(p.perNode) + int64(i%p.perNode)
	}
	return int64(r.path[i/p.perNode])*int64(p.perNode) + int64(i%p.perNode)
}

// countAlike returns the number of blocks of r from i on, at most most, with consecutive keys.
func (p *device) countAlike(r *request, i, most int) int {
	if p.core.drafts.ahead {
		return 1
	}
	if i >= r.shared {
		return most
	}
	n, most := p.perNode-i%p.perNode, min(most, r.shared-i)
	for k := i / p.perNode; n < most && r.path[k+1] == r.path[k]+1; k++ {
		n += p.perNode
	}
	return min(n, most)
}

// parseGroup splits a key into the key of the content and the group.
func (p *device) parseGroup(key int64) (content int64, group int) {
	if key >= 0 {
		return key / int64(p.groups), int(key % int64(p.groups))
	}
	id, i := events.ParseKey(key)
	return events.OwnKey(id, i/p.groups), i % p.groups
}

// Cached returns how many of the first blocks of s a lookup finds.
func (p *device) Cached(s slot) int {
	r := &p.core.requests[s]
	n, most := 0, p.core.findableBlocks(r)
	for shared := min(most, r.shared); n < shared; {
		key := p.keyOf(r, n)
		if p.found.Row(key) == nil {
			return n
		}
		for d, at := range p.placesOf(r, n, shared) {
			if at == 0 || p.all[at-1].key != key+int64(d) {
				return n
			}
			n++
		}
	}
	for n < most && p.findBlock(r, n) != noBlock {
		n++
	}
	return n
}

// hasRoom reports whether free blocks are enough for the first blocks of r, of which hits are cached: chunk blocks
// now, and whole blocks in total.
func (p *device) hasRoom(r *request, hits, chunk, whole, free int) bool {
	need := max(chunk, whole) - hits
	return need <= free && need+p.idleHits(r, hits) <= free
}

// idleHits returns how many of the first hits blocks of r, which are cached, have no holder.
func (p *device) idleHits(r *request, hits int) (idle int) {
	shared := min(hits, r.shared)
	for i := 0; i < shared; {
		run := p.placesOf(r, i, shared)
		for _, at := range run {
			if p.all[at-1].holders == 0 {
				idle++
			}
		}
		i += len(run)
	}
	for i := shared; i < hits; i++ {
		if p.isIdle(p.findBlock(r, i)) {
			idle++
		}
	}
	return idle
}

// holdHits adds r as a holder of its first hits blocks, which are cached.
func (p *device) holdHits(r *request, hits int) {
	shared := min(hits, r.shared)
	for i := 0; i < shared; {
		run := p.placesOf(r, i, shared)
		for _, at := range run {
			p.holdBlock(at - 1)
			r.held = append(r.held, at-1)
		}
		i += len(run)
	}
	for i := shared; i < hits; i++ {
		b := p.findBlock(r, i)
		p.holdBlock(b)
		r.held = append(r.held, b)
	}
	r.blocks, r.named = hits, hits
}

// takeBlocks allocates the missing blocks of the first blocks of r and reports whether there were enough.
func (p *device) takeBlocks(r *request, blocks int) (enough bool) {
	n := blocks - r.blocks
	enough = n <= p.free
	if !enough {
		if p.core.rules.WholeAllocation {
			return false
		}
		n = p.free
	}
	r.held = p.appendTaken(r.held, n)
	r.blocks += n
	return enough
}

// nameBlocks names the first blocks of r, so that they can be found.
func (p *device) nameBlocks(r *request, blocks int) {
	for ; r.named < blocks; r.named++ {
		isCopy := p.setKey(r, r.named, r.held[r.named])
		if p.told {
			p.core.events.NoteStored(r.names(), r.named, isCopy)
		}
	}
}

// Release releases all blocks of s, last to first.
func (p *device) Release(s slot) { p.releaseBlocks(&p.core.requests[s]) }

func (p *device) releaseBlocks(r *request) {
	p.dropHolders(r.held)
	r.held, r.blocks, r.named = r.held[:0], 0, 0
}

// stripBlocks releases all blocks of r, which remembers the named ones.
func (p *device) stripBlocks(r *request) {
	r.former = append(r.former[:0], r.held[:r.named]...)
	p.releaseBlocks(r)
}

// Forget drops all data of s, which has no blocks and has left.
func (p *device) Forget(s slot) { p.core.events.RemoveRequest(p.core.requests[s].id) }
