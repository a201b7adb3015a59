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

// blockID is a KV block's place in the pool.
type blockID = host.Block

const noBlock blockID = -1

// unnamed is the key of a block that cannot be found.
const unnamed int64 = -1

// block is one KV block.
type block struct {
	place   uint32 // in the queue of blocks that no request holds
	holders int32
	// later and earlier are its neighbours in the ring of blocks of equal content, by
	// when they were named; noBlock where there never was another.
	later, earlier blockID
	// key is the content of the block: a place in the tree of prompts, a name of a single request (below unnamed), or
	// unnamed.
	key int64
}

// device is the single KV blocks of an engine, with a queue of the blocks that no request holds; the next one to take is in
// front. A request holds a list of blocks.
type device struct {
	*supply
	core    *Core
	told    bool // events are captured
	all     []block
	fresh   int // blocks never used, which stand at the front
	queue   queue.Queue
	plain   []blockID // blocks without a name, where these go first
	split   bool      // they do
	ordered bool      // and they go before fresh ones, those first that were released with the latest call, in the order of that
	perNode int
	groups  int              // of layers, each of which has a block for the same tokens
	watched int              // of these, the one that events tell of
	nodes   *residency.Nodes // if a router follows what is cached
	found   places.Table     // the first block that holds a place of the tree, once or still
	// firstOwn is the first block by key, for what only one request can name and
	// several blocks hold. A single one stands in the request itself.
	firstOwn map[int64]blockID
	counts   []int32 // of noHolders
}

// leastGrowth is the number of blocks by which a pool grows at least.
const leastGrowth = 1 << 12

func newDevice(c *Core) *device {
	return &device{
		supply: &c.supply, core: c,
		told:  c.cfg.Capture == scheduler.CaptureEvents,
		fresh: c.supply.usable,
		split: !c.rules.OneQueue, perNode: c.cfg.Tree.PerNode(), groups: 1, firstOwn: make(map[int64]blockID),
	}
}

// isIdle reports whether b is free.
func (p *device) isIdle(b blockID) bool { return p.all[b].holders == 0 }

// takeBlock takes the next block. There must be one.
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

// appendTaken appends a number of blocks, the next ones. There must be as many.
func (p *device) appendTaken(dst []blockID, n int) []blockID {
	for ; n > 0 && p.fresh+len(p.plain) > 0; n-- {
		dst = append(dst, p.takeBlock())
	}
	key, alike := unnamed, int32(0) // of blocks that were evicted one after the other, the last one's key
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

// noteEvicted notes that blocks with keys from one on are evicted, the last of them first.
func (p *device) noteEvicted(key int64, blocks int32) {
	if p.cached -= int(blocks); p.nodes != nil && blocks > 0 {
		p.nodes.NoteEvicted(p.core.events.Out, key, blocks)
	}
}

// unnameBlock makes b, which is evicted, a block that cannot be found.
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

// popBlock takes the first block out of the queue.
func (p *device) popBlock() blockID {
	for {
		if b, place := p.queue.Pop(); p.isQueued(b, place) {
			return b
		}
	}
}

// isQueued reports whether b stands at a place in the queue.
func (p *device) isQueued(b blockID, place uint32) bool {
	return p.all[b].holders == 0 && p.all[b].place == place
}

// holdBlock adds a holder to b, which can be found.
func (p *device) holdBlock(b blockID) {
	k := &p.all[b]
	if k.holders == 0 {
		p.free--
		p.cached--
	}
	k.holders++
}

// letGoBlock takes a holder from b; without any it joins the queue.
func (p *device) letGoBlock(b blockID) {
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
		k.holders = -1 // it has no place yet
		p.queue.MakeRoom(p.isQueued, func(b blockID, place uint32) { p.all[b].place = place })
		k.holders = 0
	}
	k.place = p.queue.Push(b)
}

// letGoBlocks takes a holder from blocks, last to first.
func (p *device) letGoBlocks(all []blockID) {
	blocks := p.all
	plain := len(p.plain)
	for i := len(all) - 1; i >= 0; i-- {
		k := &blocks[all[i]]
		if k.holders != 1 || k.key == unnamed || p.queue.IsFull() {
			p.letGoBlock(all[i])
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

// setKey makes b, which holds block i of r, one that can be found, and reports
// whether other blocks hold the same.
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

// setSharedKey makes b one that can be found by key, a place in the tree. Of
// several blocks of equal content the first to be named is found.
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

// addCopy puts b last in the ring that begins with first.
func (p *device) addCopy(first, b blockID) {
	f := &p.all[first]
	if f.later == noBlock {
		f.later, f.earlier = first, first
	}
	last := f.earlier
	p.all[b].later, p.all[b].earlier = first, last
	p.all[last].later, f.earlier = b, b
}

// removeCopy takes b, which is evicted, out of its ring, and reports whether
// other copies are left. The next of them is found in its place.
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

// findBlock returns the block that is found for block i of r, or noBlock.
func (p *device) findBlock(r *request, i int) blockID {
	key := p.keyOf(r, i)
	if key < 0 {
		return p.findOwn(r, i, key)
	}
	return p.findShared(key)
}

// findShared returns the block that is found by key, a place in the tree, or noBlock.
func (p *device) findShared(key int64) blockID {
	if row := p.found.Row(key); len(row) > 0 && row[0] > 0 && p.all[row[0]-1].key == key {
		return row[0] - 1
	}
	return noBlock
}

// findOwn returns the block that is found for block i of r, which only r can
// name.
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

// placesOf returns the entries of found for blocks of r from i on, before a block that has a key of the tree: at least one, as many
// as are in a row.
func (p *device) placesOf(r *request, i, before int) []blockID {
	row := p.found.Enter(p.keyOf(r, i))
	n := min(len(row), before-i, p.perNode-i%p.perNode)
	if p.core.drafts.ahead {
		n = 1
	}
	return row[:n]
}

// keyOf returns the key of what block i of r holds.
func (p *device) keyOf(r *request, i int) int64 {
	switch {
	case i >= r.shared:
		return events.OwnKey(r.id, i)
	case p.core.drafts.ahead: // the place of the block after it, or of another that begins alike
		i++
		return int64(p.core.cfg.Tree.Lead(r.path[i/p.perNode]))*int64(p.perNode) + int64(i%p.perNode)
	}
	return int64(r.path[i/p.perNode])*int64(p.perNode) + int64(i%p.perNode)
}

// countAlike returns for how many blocks of r from i on, at most a number, the keys follow one another.
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

// parseGroup returns the key of what a block of that key holds, and the group it is of.
func (p *device) parseGroup(key int64) (content int64, group int) {
	if key >= 0 {
		return key / int64(p.groups), int(key % int64(p.groups))
	}
	id, i := events.ParseKey(key)
	return events.OwnKey(id, i/p.groups), i % p.groups
}

// Cached returns how many of the first blocks of s can be found.
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

// hasRoom reports whether n free blocks are enough for r to have the first blocks
// of its list, hits of which are cached: a chunk of them and the whole.
func (p *device) hasRoom(r *request, hits, chunk, whole, free int) bool {
	need := max(chunk, whole) - hits
	return need <= free && need+p.idleHits(r, hits) <= free
}

// idleHits returns how many of the first blocks of r, which are cached, no request
// holds.
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

// holdHits makes r a holder of its first blocks, which are cached.
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

// takeBlocks takes the missing blocks of the first blocks of r's list and reports whether there were enough.
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

// nameBlocks makes the first blocks of r ones that can be found.
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
	p.letGoBlocks(r.held)
	r.held, r.blocks, r.named = r.held[:0], 0, 0
}

// stripBlocks takes all blocks from r, which remembers the ones that can be found.
func (p *device) stripBlocks(r *request) {
	r.former = append(r.former[:0], r.held[:r.named]...)
	p.releaseBlocks(r)
}

// Forget drops what is kept for s, which holds nothing and is gone.
func (p *device) Forget(s slot) { p.core.events.RemoveRequest(p.core.requests[s].id) }
