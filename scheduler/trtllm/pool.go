package trtllm

import (
	"math/bits"
	"slices"

	"github.com/replay-llm/replay/internal/invariant"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// blockID is the index of a block in the pool.
type blockID int32

const (
	root    blockID = -1 // root of the tree
	noBlock blockID = -2
)

// content identifies the tokens of a block among blocks with the same parent: some prompt tokens, followed by some
// answer tokens.
type content struct {
	ref    int64 // prompt tokens: a prompt node, or ownPrompt with a seed; noRef if there are none
	owner  int32 // request of the answer tokens; -1 if there are none
	prompt int32 // number of prompt tokens
	answer int32 // number of answer tokens
}

const (
	noRef     int64 = -1
	ownPrompt int64 = 1 << 40
	ownAnswer int64 = 1 << 41
)

func (k content) tokens() int { return int(k.prompt + k.answer) }

// place is a content with its parent.
type place struct {
	parent blockID
	content
}

// family identifies the children of a block that may begin with the same token.
type family struct {
	parent blockID
	ref    int64
}

// list contains the ends of a list of blocks.
type list struct{ first, last blockID }

// links are the neighbors of a block in a list.
type links struct{ older, newer blockID }

// block is a number of consecutive KV blocks of a prompt node or of an answer, each with the same content. All blocks
// of a struct are held and released together. The struct fits in a cache line of 64 bytes.
type block struct {
	ref            int64 // content.ref; the next fields are also of the content
	owner          int32
	prompt, answer int32
	refs           int32
	n              int32   // number of KV blocks; 0: the block is unused
	before         blockID // the blocks that were split off the front; requests that held the whole block hold both parts
	links                  // neighbors in the free queue, which allocates the last of the KV blocks first
	parent         blockID // parent in the tree; noBlock if the block is not in the tree
	kids           list    // children in the tree, in any order
	nth            int32   // index of the first KV block among the blocks of the prompt node
	changed        uint32  // stamp of the pool when a child was added, or when the block left the tree
	indexed        bool    // the block is in exact and families of the pool
	host           bool    // the block is in host memory
	priority       uint8   // retention priority, if the pool has retention priorities
	used           bool    // lookups could find the block in the cache at some time
}

func (k *block) content() content {
	return content{ref: k.ref, owner: k.owner, prompt: k.prompt, answer: k.answer}
}

func (k *block) holds(x content) bool {
	return k.ref == x.ref && k.prompt == x.prompt && k.owner == x.owner && k.answer == x.answer
}

// siblings are the links of an indexed block.
type siblings struct {
	kin   links // neighbors among the children of the parent
	alike links // neighbors in the family, in the order of storing
}

// holding is a number of KV blocks that a request holds. If blocks of a holding were split later, the first of them
// are in the before chain.
type holding struct {
	block blockID
	n     int32
}

// pool is the KV blocks of an engine: a tree of cached blocks, and a queue of blocks without references.
type pool struct {
	cfg   *Config
	all   []block
	total int
	shift int // log2 of the number of blocks per prompt node; -1: not an integer
	free  int // number of KV blocks without references
	fresh int // number of KV blocks that were never used
	queue waiting
	now   sim.Time  // time of the current plan, or of the end of the running pass
	alone bool      // each KV block is a separate block
	spare []blockID // unused blocks

	exact    map[place]blockID // children of the root, and of blocks with several children, now or before
	families map[family]list   // families of the blocks in exact
	siblings []siblings        // links of indexed blocks
	top      list              // children of the root
	stamp    uint32            // number of changes of the tree in this epoch
	topStamp uint32            // stamp when a child of the root was added
	epoch    uint32            // number of overflows of stamp
	uses     int64             // changes if a block of the tree gets its first reference or loses its last reference
	cached   int               // KV blocks in the tree without references, on the device
	fewer    map[blockID]int32 // references of paused requests in the current plan

	retention retention
	host      tier
	events    events

	a, b [1]prompt.NodeID
	kv   []scheduler.KVChange
}

func newPool(c *Config) pool {
	p := pool{
		cfg: c, total: c.Blocks, free: c.Blocks, fresh: c.Blocks, queue: newWaiting(c), top: list{noBlock, noBlock}, retention: retention{Retention: c.Retention},
		exact: map[place]blockID{}, families: map[family]list{}, fewer: map[blockID]int32{}, stamp: 1,
		alone: c.Capture == scheduler.CaptureEvents || c.Host.Blocks > 0 || c.Retention != nil,
		host:  tier{fresh: c.Host.Blocks, queue: newWaiting(c)}, events: events{cfg: c}, shift: shiftOf(c.Tree.PerNode()),
	}
	if p.alone {
		p.all = make([]block, 0, c.Blocks+c.Host.Blocks)
	}
	return p
}

// shiftOf returns log2 of n, or -1 if it is not an integer.
func shiftOf(n int) int {
	if n&(n-1) != 0 {
		return -1
	}
	return bits.TrailingZeros(uint(n))
}

// contentOf returns the content of block i of the first end tokens of r. contentOf also returns how many blocks from
// i on have this content.
func (p *pool) contentOf(r *request, i, end int) (k content, n int) {
	size := p.cfg.BlockTokens
	start, most := i*size, end/size
	end = min(end, start+size)
	k, n = content{ref: noRef, owner: -1}, 1
	if t := min(end, r.InputTokens) - start; t > 0 {
		k.prompt = int32(t)
		k.ref = p.refOf(r, i)
	}
	if t := end - start - int(k.prompt); t > 0 {
		k.answer, k.owner = int32(t), int32(r.ID)
	}
	switch {
	case p.alone || int(k.prompt) != size && int(k.answer) != size:
	case k.answer > 0:
		n = most - i
	default:
		n = min(most, r.InputTokens/size) - i
		if at := p.nodeAt(i); k.ref < ownPrompt {
			n = min(n, (at+1)*p.cfg.Tree.PerNode()-i)
		}
	}
	return k, n
}

// refOf returns content.ref for block i of r.
func (p *pool) refOf(r *request, i int) int64 {
	if r.Prompt.Unique() {
		return ownPrompt | int64(r.Prompt.Seed)
	}
	at := p.nodeAt(i)
	if at >= len(r.Prompt.Nodes) {
		return ownAnswer | ownPrompt | int64(r.ID)
	}
	return int64(r.Prompt.Nodes[at])
}

// nodeAt returns the index of the prompt node of block i.
func (p *pool) nodeAt(i int) int {
	if p.shift >= 0 {
		return i >> p.shift
	}
	return i / p.cfg.Tree.PerNode()
}

func (p *pool) familyOf(parent blockID, k content) family {
	switch {
	case k.prompt == 0:
		return family{parent, ownAnswer | int64(k.owner)}
	case k.ref < ownPrompt:
		return family{parent, int64(p.cfg.Tree.Lead(prompt.NodeID(k.ref)))}
	}
	return family{parent, k.ref}
}

// countCommon returns the length of the common prefix of two contents of one family, in tokens.
func (p *pool) countCommon(x, y content) int {
	switch {
	case x.prompt == 0 || y.prompt == 0:
		if x.prompt != y.prompt {
			return 0
		}
		return int(min(x.answer, y.answer)) // both contents are of the same request
	case x.ref != y.ref:
		p.a[0], p.b[0] = prompt.NodeID(x.ref), prompt.NodeID(y.ref)
		return p.cfg.Tree.Common(prompt.Prompt{Nodes: p.a[:]}, prompt.Prompt{Nodes: p.b[:]}, int(x.prompt), int(y.prompt))
	}
	n := min(x.prompt, y.prompt)
	if x.prompt == y.prompt && x.owner == y.owner {
		n += min(x.answer, y.answer)
	}
	return int(n)
}

// find returns the child of parent with the given content.
func (p *pool) find(parent blockID, k content) (blockID, bool) {
	if parent != root {
		if l := &p.all[parent].kids; l.first == l.last {
			return l.first, l.first != noBlock && p.all[l.first].holds(k)
		}
	}
	b, ok := p.exact[place{parent, k}]
	return b, ok
}

// findFamily returns the children of parent that may begin with the first token of k, as a list by alikeLinks.
func (p *pool) findFamily(parent blockID, k content) list {
	f := p.familyOf(parent, k)
	if parent != root {
		if l := p.all[parent].kids; l.first == l.last {
			if l.first == noBlock || p.familyOf(parent, p.all[l.first].content()) != f {
				return list{noBlock, noBlock}
			}
			return l
		}
	}
	if l, ok := p.families[f]; ok {
		return l
	}
	return list{noBlock, noBlock}
}

// nextAlike returns the block after b in its family.
func (p *pool) nextAlike(b blockID) blockID {
	if !p.all[b].indexed {
		return noBlock // b is the only child
	}
	return p.siblings[b].alike.newer
}

// match returns the child of parent with the longest common prefix with k, and the length of this prefix in tokens.
// match returns noBlock if no child has a common prefix.
func (p *pool) match(parent blockID, k content) (best blockID, tokens int) {
	if k.tokens() == 0 {
		return noBlock, 0
	}
	if b, ok := p.find(parent, k); ok {
		return b, k.tokens()
	}
	best = noBlock
	whole := k.tokens() == p.cfg.BlockTokens
	if !p.cfg.Partial && whole {
		return best, 0
	}
	for b := p.findFamily(parent, k).first; b != noBlock; b = p.nextAlike(b) {
		n := p.countCommon(p.all[b].content(), k)
		if !whole && n == k.tokens() && n == p.all[b].content().tokens() {
			return b, n // the same tokens in another prompt
		}
		if n > tokens && p.cfg.Partial && (p.cfg.Copy || !p.isUsed(b)) {
			best, tokens = b, n
		}
	}
	return best, tokens
}

// isUsed reports whether a request holds b or b has children in the tree.
func (p *pool) isUsed(b blockID) bool {
	k := &p.all[b]
	return k.refs > 0 || k.kids.first != noBlock || k.n > 1
}

// walk looks up the full blocks of the known tokens of r. The previous result stays valid while the last found block
// is in the tree and has no new children, because its ancestors are then in the tree too.
func (p *pool) walk(r *request) walk {
	w := p.found(r)
	if w.uses != p.uses {
		w.held, w.uses = 0, p.uses
		for b := w.last; b != root; b = p.all[b].parent {
			if k := &p.all[b]; k.refs > 0 {
				w.held += int(k.n)
			}
		}
	}
	return *w
}

// found is walk without an update of the number of held blocks.
func (p *pool) found(r *request) *walk {
	w := &r.seen
	if w.stamp == 0 || w.known != r.known || w.epoch != p.epoch || w.stamp < p.changedAt(w.last) {
		*w = p.walkTokens(r, r.known)
	}
	return w
}

// changedAt returns the stamp of the latest new child of b, or of the time when b left the tree.
func (p *pool) changedAt(b blockID) uint32 {
	if b == root {
		return p.topStamp
	}
	return p.all[b].changed
}

// noteChange records that walks that ended at b are invalid: b has a new child, or has left the tree.
func (p *pool) noteChange(b blockID) {
	if p.stamp++; p.stamp == 0 {
		p.stamp, p.epoch = 1, p.epoch+1
	}
	if b == root {
		p.topStamp = p.stamp
	} else {
		p.all[b].changed = p.stamp
	}
}

// walkTokens looks up the full blocks of the first tokens of r.
func (p *pool) walkTokens(r *request, tokens int) walk {
	w := walk{stamp: p.stamp, epoch: p.epoch, uses: p.uses, known: r.known, last: root}
	for full := tokens / p.cfg.BlockTokens; w.all < full; {
		k, n := p.contentOf(r, w.all, tokens)
		b, ok := p.find(w.last, k)
		if !ok {
			break
		}
		b = p.splitFrom(b, n)
		x := &p.all[b]
		w.all += int(x.n)
		if x.refs > 0 {
			w.held += int(x.n)
			if x.host {
				w.far += int(x.n)
			}
		}
		w.last = b
	}
	return w
}

// prefix returns the last block of the first n KV blocks that w found.
func (p *pool) prefix(w *walk, n int) blockID {
	b := w.last
	for all := w.all; all > n; {
		k := &p.all[b]
		if over := all - n; over < int(k.n) {
			return p.splitFrom(b, int(k.n)-over)
		}
		all -= int(k.n)
		b = k.parent
	}
	return b
}

// firstNew returns the place of the first full block of r that is not in the tree; ok is false if all full blocks are
// in the tree.
func (p *pool) firstNew(r *request) (at place, ok bool) {
	w := p.found(r)
	if (w.all+1)*p.cfg.BlockTokens > r.known {
		return place{}, false
	}
	k, _ := p.contentOf(r, w.all, r.known)
	return place{w.last, k}, true
}

// hold adds a reference to b.
func (p *pool) hold(b blockID) {
	k := &p.all[b]
	if k.refs == 0 {
		unlinkBlock(p, p.queueOf(k), b, queueLinks)
		p.countIdle(k, -1)
		p.noteTaken(b)
	}
	k.refs++
}

// dropHolder removes a reference from b. Without references, b moves to the end of the free queue.
func (p *pool) dropHolder(b blockID) {
	k := &p.all[b]
	k.refs--
	if k.refs == 0 {
		l := p.queueOf(k)
		k.links = links{l.last, noBlock}
		if l.last == noBlock {
			l.first = b
		} else {
			p.all[l.last].newer = b
		}
		l.last = b
		p.countIdle(k, 1)
		p.noteReleased(b)
	}
}

// countIdle updates the counters of blocks without references when k loses its last reference (by is 1) or gets its
// first one (by is -1).
func (p *pool) countIdle(k *block, by int) {
	inTree := k.parent != noBlock
	if inTree {
		p.uses++
	}
	if k.host {
		return
	}
	p.free += by * int(k.n)
	if inTree {
		p.cached += by * int(k.n)
	}
}

// queueOf returns the free queue of the memory of k.
func (p *pool) queueOf(k *block) *list {
	if k.host {
		return p.host.queue.of(k.priority)
	}
	return p.queue.of(k.priority)
}

// takeBlocks allocates n KV blocks from the front of the queue for r. Allocated blocks and their descendants leave
// the tree.
func (p *pool) takeBlocks(r *request, n int) {
	r.blocks += n
	if p.alone {
		for range n {
			b := p.takeBlock()
			p.all[b].used = p.all[b].used || len(r.held)*p.cfg.BlockTokens < r.prompt-1
			p.retain(b, r, len(r.held), false)
			r.held = append(r.held, holding{b, 1})
		}
		return
	}
	p.free -= n
	had := min(n, p.fresh)
	p.fresh -= had
	for had < n {
		had += p.evict(n - had)
	}
	if last := len(r.held) - 1; last >= 0 {
		if k := &p.all[r.held[last].block]; k.refs == 1 && k.parent == noBlock {
			k.n += int32(n)
			r.held[last].n += int32(n)
			return
		}
	}
	b := p.newBlock(n)
	p.all[b].refs = 1
	r.held = append(r.held, holding{b, int32(n)})
}

// newBlock returns a block of n KV blocks that is neither in the tree nor in the queue.
func (p *pool) newBlock(n int) blockID {
	last := len(p.spare) - 1
	if last < 0 {
		p.all = append(p.all, block{})
		p.spare, last = append(p.spare, blockID(len(p.all)-1)), 0
	}
	b := p.spare[last]
	p.spare = p.spare[:last]
	k := &p.all[b]
	*k = block{n: int32(n), priority: DefaultPriority, before: noBlock, parent: noBlock, kids: list{noBlock, noBlock}, changed: k.changed}
	return b
}

// evict removes up to n KV blocks at the front of the queue from the queue and the tree, and returns their number.
func (p *pool) evict(n int) int {
	b := p.queue.usual.first
	for p.all[b].kids.first != noBlock {
		p.drop(p.all[b].kids.first)
	}
	k := &p.all[b]
	if n < int(k.n) {
		k.n -= int32(n)
		if k.parent != noBlock {
			p.cached -= n
			p.recordResidency(b, k.nth+k.n)
			p.noteChange(b)
		}
		return n
	}
	n = int(k.n)
	p.detach(b)
	unlinkBlock(p, &p.queue.usual, b, queueLinks)
	k.n = 0
	p.spare = append(p.spare, b)
	return n
}

// splitFrom splits the first n KV blocks off b and returns them.
func (p *pool) splitFrom(b blockID, n int) blockID {
	if n >= int(p.all[b].n) {
		return b
	}
	a := p.newBlock(n)
	k, x := &p.all[b], &p.all[a]
	x.ref, x.owner, x.prompt, x.answer = k.ref, k.owner, k.prompt, k.answer
	x.refs, x.before, x.nth, x.used = k.refs, k.before, k.nth, k.used
	k.n, k.nth, k.before = k.n-int32(n), k.nth+int32(n), a
	if c, ok := p.fewer[b]; ok {
		p.fewer[a] = c
	}
	if k.refs == 0 { // b is allocated before a
		l := p.queueOf(k)
		x.links = links{b, k.newer}
		if k.newer == noBlock {
			l.last = a
		} else {
			p.all[k.newer].older = a
		}
		k.newer = a
	}
	if k.parent != noBlock {
		p.replaceKid(b, a)
		x.kids, k.parent = list{b, b}, a
	}
	return a
}

// replaceKid replaces b by a in the tree.
func (p *pool) replaceKid(b, a blockID) {
	k, x := &p.all[b], &p.all[a]
	x.parent = k.parent
	l := p.kidsOf(k.parent)
	if k.indexed {
		x.indexed, k.indexed = true, false
		p.growSiblings(a)
		p.siblings[a] = p.siblings[b]
		p.exact[place{k.parent, k.content()}] = a
		f := p.familyOf(k.parent, k.content())
		of := p.families[f]
		replaceLinked(p, &of, a, alikeLinks)
		p.families[f] = of
		replaceLinked(p, l, a, kinLinks)
		return
	}
	*l = list{a, a}
}

// replaceLinked inserts a into l instead of the block that has the same links.
func replaceLinked(p *pool, l *list, a blockID, which int) {
	k := *p.links(a, which)
	if k.older == noBlock {
		l.first = a
	} else {
		p.links(k.older, which).newer = a
	}
	if k.newer == noBlock {
		l.last = a
	} else {
		p.links(k.newer, which).older = a
	}
}

// takeBlock allocates the block at the front of the queue and returns it with one reference. The block and its
// descendants leave the tree.
func (p *pool) takeBlock() blockID {
	l := p.queue.front(p.fresh)
	if p.fresh > 0 && l == &p.queue.usual {
		p.fresh--
		p.free--
		b := p.newBlock(1)
		p.all[b].refs = 1
		return b
	}
	b := l.first
	if k := &p.all[b]; k.used && k.priority >= leastOffloaded && p.host.queue.hasRoom(p.host.fresh) {
		b = p.offload(b)
	} else {
		p.holdFirst(l)
	}
	if k := &p.all[b]; k.parent != noBlock {
		p.drop(b)
	}
	return b
}

// holdFirst removes the first block of a free queue and gives it one reference.
func (p *pool) holdFirst(l *list) {
	b := l.first
	k := &p.all[b]
	if l.first = k.newer; k.newer == noBlock {
		l.last = noBlock
	} else {
		p.all[k.newer].older = noBlock
	}
	p.countIdle(k, -1)
	p.noteTaken(b)
	k.refs = 1
}

// drop removes b and its descendants from the tree.
func (p *pool) drop(b blockID) {
	for p.all[b].kids.first != noBlock {
		p.drop(p.all[b].kids.first)
	}
	if p.all[b].parent != noBlock {
		p.events.noteRemoved(b)
	}
	p.detach(b)
}

// detach removes b, which has no children, from the tree.
func (p *pool) detach(b blockID) {
	k := &p.all[b]
	if k.parent == noBlock {
		return
	}
	if invariant.Enabled && k.kids.first != noBlock {
		panic("trtllm: a block leaves the tree before its children")
	}
	if k.indexed {
		p.removeIndex(b)
	}
	if l := p.kidsOf(k.parent); l.first == l.last {
		*l = list{noBlock, noBlock}
	} else {
		unlinkBlock(p, l, b, kinLinks)
	}
	p.recordResidency(b, k.nth)
	p.noteChange(b)
	k.parent = noBlock
	if k.refs == 0 && !k.host {
		p.cached -= int(k.n)
	}
}

// attach adds b to the tree as a child of parent.
func (p *pool) attach(b, parent blockID, content content) {
	k, l := &p.all[b], p.kidsOf(parent)
	k.ref, k.owner, k.prompt, k.answer = content.ref, content.owner, content.prompt, content.answer
	k.parent, k.nth, k.used = parent, 0, true
	if parent != root && p.all[parent].ref == content.ref {
		k.nth = p.all[parent].nth + p.all[parent].n
	}
	if parent != root && l.first == noBlock {
		*l = list{b, b}
	} else {
		if sibling := l.first; sibling != noBlock && !p.all[sibling].indexed {
			p.addIndex(sibling)
		}
		p.addIndex(b)
		linkBlock(p, l, b, kinLinks)
	}
	p.recordResidency(b, k.nth+k.n)
	p.noteChange(parent)
}

// addIndex adds b to exact and families, so that it can be found among several children.
func (p *pool) addIndex(b blockID) {
	k := &p.all[b]
	k.indexed = true
	p.growSiblings(b)
	p.siblings[b].kin = links{noBlock, noBlock}
	p.exact[place{k.parent, k.content()}] = b
	f := p.familyOf(k.parent, k.content())
	l, ok := p.families[f]
	if !ok {
		l = list{noBlock, noBlock}
	}
	linkBlock(p, &l, b, alikeLinks)
	p.families[f] = l
}

func (p *pool) growSiblings(b blockID) {
	for int(b) >= len(p.siblings) {
		p.siblings = append(p.siblings, siblings{})
	}
}

// removeIndex reverts addIndex.
func (p *pool) removeIndex(b blockID) {
	k := &p.all[b]
	k.indexed = false
	delete(p.exact, place{k.parent, k.content()})
	f := p.familyOf(k.parent, k.content())
	l := p.families[f]
	if unlinkBlock(p, &l, b, alikeLinks); l.first == noBlock {
		delete(p.families, f)
	} else {
		p.families[f] = l
	}
}

func (p *pool) kidsOf(b blockID) *list {
	if b == root {
		return &p.top
	}
	return &p.all[b].kids
}

// recordResidency records how many blocks of the prompt node of b are in the tree, if b is full blocks of a prompt
// node.
func (p *pool) recordResidency(b blockID, blocks int32) {
	k := &p.all[b]
	if p.cfg.Capture != scheduler.CaptureResidency || k.ref < 0 || k.ref >= ownPrompt || int(k.prompt) < p.cfg.BlockTokens {
		return
	}
	change := scheduler.KVChange{Node: prompt.NodeID(k.ref), Blocks: blocks}
	if n := len(p.kv); n > 0 && p.kv[n-1].Node == change.Node {
		p.kv[n-1] = change // only the latest change counts
		return
	}
	p.kv = append(p.kv, change)
}

// allocate allocates the blocks of the whole prompt of r, and moves its chunk after the cached prefix.
func (p *pool) allocate(r *request) {
	size, n := p.cfg.BlockTokens, countBlocks(r.prompt, p.cfg.BlockTokens)
	r.slots, r.expect, r.loaded = r.prompt, 0, 0
	if !p.cfg.hasBlocks() {
		return
	}
	if !p.cfg.Reuse {
		p.takeBlocks(r, n)
		return
	}
	at, found := p.holdPrefix(r)
	for r.blocks < n {
		b, tokens, i := noBlock, 0, r.blocks
		if at != noBlock && r.prompt-1 > i*size {
			k, _ := p.contentOf(r, i, r.prompt-1)
			b, tokens = p.match(at, k)
		}
		found += tokens
		switch {
		case b == noBlock:
			p.takeBlocks(r, n-i) // no block is reused after a missing block
			at = noBlock
			continue
		case tokens == size:
			b = p.splitFrom(b, 1)
			p.hold(b)
			p.onboard(r, b, tokens)
			at = b
			if r.rooted == i {
				r.rooted, r.rootedAt, r.rootedHeld = i+1, b, len(r.held)+1
			}
		case p.isUsed(b):
			p.takeCopy(r, b)
			at = noBlock
			continue
		default:
			p.detach(b)
			p.hold(b)
			p.onboard(r, b, tokens)
			at = noBlock
		}
		p.retain(b, r, i, true)
		r.held = append(r.held, holding{b, 1})
		r.blocks++
	}
	r.found = found
	if found == 0 {
		return
	}
	if found+r.chunk < r.prompt {
		r.chunk = (found+r.chunk)/size*size - found
	}
	r.pos = found
	r.chunk = min(r.chunk, r.rest())
}

// takeCopy allocates a block for r with a copy of the first tokens of b.
func (p *pool) takeCopy(r *request, b blockID) {
	priority := int(p.all[b].priority)
	if !p.retention.isOn() {
		p.takeBlocks(r, 1)
		return
	}
	last := p.retention.keptOf(b).last
	p.takeBlocks(r, 1)
	p.setPriority(r.held[len(r.held)-1].block, priority, last)
}

// holdPrefix adds references of r to its cached full blocks, except the block of its last token. holdPrefix returns
// the last of these blocks and their number of tokens. holdPrefix holds no block if any of them is in host memory,
// because loading this block could evict later ones.
func (p *pool) holdPrefix(r *request) (last blockID, tokens int) {
	w := p.found(r)
	n := min(w.all, (r.prompt-1)/p.cfg.BlockTokens)
	last = p.prefix(w, n)
	for b := last; b != root; b = p.all[b].parent {
		if p.all[b].host {
			r.held = r.held[:0]
			return root, 0
		}
		r.held = append(r.held, holding{b, p.all[b].n})
	}
	slices.Reverse(r.held)
	for i, h := range r.held {
		p.hold(h.block)
		p.retain(h.block, r, i, true)
	}
	r.blocks, r.rooted, r.rootedAt, r.rootedHeld = n, n, last, len(r.held)
	return last, n * p.cfg.BlockTokens
}

// part replaces entry i of r.held by the parts into which its block was split.
func (p *pool) part(r *request, i int) {
	h := r.held[i]
	k := &p.all[h.block]
	if k.n == h.n {
		return
	}
	r.held[i].n = k.n
	for b, left := k.before, h.n-k.n; left > 0; b = p.all[b].before {
		r.held = slices.Insert(r.held, i, holding{b, p.all[b].n})
		left -= p.all[b].n
		if i < r.rootedHeld {
			r.rootedHeld++
		}
		if invariant.Enabled && left < 0 {
			panic("trtllm: blocks that were split do not add up")
		}
	}
}

// parts calls part for all entries of r.held.
func (p *pool) parts(r *request) {
	for i := len(r.held) - 1; i >= 0; i-- {
		p.part(r, i)
	}
}

// grow allocates the KV slot of a token for r.
func (p *pool) grow(r *request) {
	if p.cfg.hasBlocks() && r.slots%p.cfg.BlockTokens == 0 {
		p.takeBlocks(r, 1)
	}
	r.slots++
}

// store adds the blocks of the first tokens of r to the tree, with partial also the last block if it is not full. A
// block with content that is already in the tree stays outside the tree.
func (p *pool) store(r *request, tokens int, partial bool) {
	size := p.cfg.BlockTokens
	n := tokens / size
	if partial {
		n = countBlocks(tokens, size)
	}
	at, known, began := root, true, false
	if r.rooted > 0 {
		at = r.rootedAt
	}
	n = min(n, r.blocks)
	for i, h := r.rooted, r.rootedHeld; i < n; h++ {
		p.part(r, h)
		k, alike := p.contentOf(r, i, tokens)
		alike = min(alike, int(r.held[h].n))
		var b blockID
		if known {
			if b, known = p.find(at, k); known {
				b = p.splitFrom(b, alike)
				alike = int(p.all[b].n)
			}
		}
		p.part(r, h) // the held block may be the block that was found
		own := p.splitFrom(r.held[h].block, alike)
		p.part(r, h)
		if !known {
			p.detach(own)
			p.attach(own, at, k)
			p.events.noteStored(own, at, k, i, began)
			b, began = own, true
		}
		at, alike = b, int(p.all[b].n)
		if r.rooted == i && at == own && k.tokens() == size {
			r.rooted, r.rootedAt, r.rootedHeld = i+alike, at, h+1
		}
		i += alike
	}
}

// close stores the tokens of r and releases its blocks, last to first.
func (p *pool) close(r *request) {
	if p.cfg.Reuse {
		p.store(r, r.known-1, true)
	}
	for _, h := range slices.Backward(r.held) {
		p.dropHolders(h)
	}
	r.held, r.blocks, r.rooted, r.rootedHeld = r.held[:0], 0, 0, 0
}

// dropHolders removes a reference from the blocks of h, last to first.
func (p *pool) dropHolders(h holding) {
	for b := h.block; h.n > 0; b = p.all[b].before {
		h.n -= p.all[b].n
		p.dropHolder(b)
	}
}

// Kinds of links of a block, one for each kind of list.
const (
	queueLinks = iota
	kinLinks
	alikeLinks
)

func (p *pool) links(b blockID, which int) *links {
	switch which {
	case queueLinks:
		return &p.all[b].links
	case kinLinks:
		return &p.siblings[b].kin
	default:
		return &p.siblings[b].alike
	}
}

// linkBlock appends b to l.
func linkBlock(p *pool, l *list, b blockID, which int) {
	*p.links(b, which) = links{l.last, noBlock}
	if l.last == noBlock {
		l.first = b
	} else {
		p.links(l.last, which).newer = b
	}
	l.last = b
}

// unlinkBlock removes b from l.
func unlinkBlock(p *pool, l *list, b blockID, which int) {
	k := p.links(b, which)
	if k.older == noBlock {
		l.first = k.newer
	} else {
		p.links(k.older, which).newer = k.newer
	}
	if k.newer == noBlock {
		l.last = k.older
	} else {
		p.links(k.newer, which).older = k.older
	}
}

// check panics if references or counters of blocks are wrong.
func (p *pool) check(active []*request, sending []sent) {
	if !invariant.Enabled {
		return
	}
	refs := make(map[blockID]int32)
	count := func(r *request) {
		blocks := 0
		for _, h := range r.held {
			blocks += int(h.n)
			for b := h.block; h.n > 0; b = p.all[b].before {
				h.n -= p.all[b].n
				refs[b]++
			}
		}
		if blocks != r.blocks {
			panic("trtllm: the blocks that a request holds do not add up")
		}
	}
	for _, r := range active {
		count(r)
	}
	for _, s := range sending {
		count(s.request)
	}
	cached, host, held := 0, p.host.fresh, 0
	for i := range p.all {
		if p.all[i].host {
			host++
		} else if p.all[i].parent != noBlock && p.all[i].refs == 0 {
			cached += int(p.all[i].n)
		}
		if refs[blockID(i)] > 0 {
			held += int(p.all[i].n)
		}
		if got, has := p.all[i].refs, refs[blockID(i)]; got != has || has > 0 && p.all[i].host {
			panic("trtllm: a block's references differ from the requests that hold it")
		}
	}
	if host != p.cfg.Host.Blocks {
		panic("trtllm: blocks in host memory do not add up to its size")
	}
	if p.free+held != p.total || p.cached != cached {
		panic("trtllm: free and held blocks do not add up to the pool")
	}
}
