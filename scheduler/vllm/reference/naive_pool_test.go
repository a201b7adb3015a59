package reference_test

import (
	"cmp"
	"fmt"

	"github.com/replay-llm/replay/scheduler"
)

// naivePool is a literal block pool: every block is free, held, or inactive (cached and held by no request).
type naivePool struct {
	free       int
	full       map[uint64]*naiveHeld // held full blocks by sequence hash
	partial    map[uint64]bool
	inactive   naiveLineage
	registered map[naiveKey]uint64 // sequence hash of every cached full block

	names   uint64
	capture bool
	events  []scheduler.KVEvent
}

type naiveHeld struct {
	holders int
	key     naiveKey
}

// naiveKey names a block's content by its position, its hash and the hash of the previous block.
type naiveKey struct {
	position  int
	content   uint64
	parent    uint64
	hasParent bool
}

func newNaivePool(blocks int) *naivePool {
	return &naivePool{
		free:       blocks,
		full:       make(map[uint64]*naiveHeld),
		partial:    make(map[uint64]bool),
		inactive:   naiveLineage{nodes: make(map[naivePlace]*naiveNode), leaves: make(map[naivePlace]bool)},
		registered: make(map[naiveKey]uint64),
	}
}

// unique returns a name that no other block has.
func (p *naivePool) unique() uint64 {
	p.names++
	return 1<<63 | p.names
}

// active returns the number of held blocks.
func (p *naivePool) active() int { return len(p.full) + len(p.partial) }

// cachedPrefix returns the number of prompt tokens of s in consecutive cached blocks from the first one on.
func (p *naivePool) cachedPrefix(s *naiveSequence) int {
	n := 0
	for _, b := range s.blocks {
		if !b.full || !p.has(b) {
			break
		}
		n++
	}
	return min(n*s.size, s.input)
}

func (p *naivePool) has(b naiveBlock) bool {
	_, held := p.full[b.hash]
	_, there := p.registered[b.key]
	return held || there
}

// use allocates the blocks in order until no block is available, and returns how many blocks it allocated.
func (p *naivePool) use(blocks []naiveBlock, parent *naiveBlock) int {
	var stored []naiveBlock
	var evicted []naiveKey
	got := 0
	for _, b := range blocks {
		if !b.full && p.partial[b.hash] {
			got++
			continue
		}
		if b.full && p.hit(b) {
			parent = &b
			got++
			continue
		}
		key, evicts, ok := p.take()
		if !ok {
			break
		}
		if evicts {
			evicted = append(evicted, key)
		}
		got++
		if !b.full {
			p.partial[b.hash] = true
			continue
		}
		p.full[b.hash] = &naiveHeld{1, b.key}
		p.registered[b.key] = b.hash
		stored = append(stored, b)
	}
	p.publishStored(stored, parent)
	p.publishRemoved(evicted)
	return got
}

// hit adds a holder to a full block if it is cached.
func (p *naivePool) hit(b naiveBlock) bool {
	if h, ok := p.full[b.hash]; ok {
		h.holders++
		return true
	}
	if p.inactive.remove(b.key) {
		p.full[b.hash] = &naiveHeld{1, b.key}
		return true
	}
	return false
}

// take allocates one block. take evicts a block only if none is free.
func (p *naivePool) take() (evicted naiveKey, evicts, ok bool) {
	if p.free > 0 {
		p.free--
		return naiveKey{}, false, true
	}
	key, ok := p.inactive.evict()
	return key, ok, ok
}

// deref removes a holder from a block.
func (p *naivePool) deref(b naiveBlock) {
	if !b.full {
		if !p.partial[b.hash] {
			panic(fmt.Sprintf("deref: partial block %x is not held", b.hash))
		}
		delete(p.partial, b.hash)
		p.free++
		return
	}
	h := p.full[b.hash]
	if h.holders--; h.holders == 0 {
		delete(p.full, b.hash)
		p.inactive.insert(h.key)
	}
}

// promote makes a held partial block the full block b.
func (p *naivePool) promote(partial, b naiveBlock, parent *naiveBlock) {
	if !p.partial[partial.hash] {
		panic(fmt.Sprintf("promote: partial block %x is not held", partial.hash))
	}
	delete(p.partial, partial.hash)
	if p.hit(b) {
		p.free++
		return
	}
	p.full[b.hash] = &naiveHeld{1, b.key}
	p.registered[b.key] = b.hash
	p.publishStored([]naiveBlock{b}, parent)
}

func (p *naivePool) publishStored(blocks []naiveBlock, parent *naiveBlock) {
	if len(blocks) == 0 || !p.capture {
		return
	}
	var e scheduler.KVEvent
	if parent != nil {
		e.Parent, e.HasParent = parent.hash, true
	}
	for _, b := range blocks {
		e.Stored = append(e.Stored, scheduler.KVBlock{Seq: b.hash, Tokens: b.local})
	}
	p.events = append(p.events, e)
}

func (p *naivePool) publishRemoved(keys []naiveKey) {
	var e scheduler.KVEvent
	for _, k := range keys {
		if hash, ok := p.registered[k]; ok {
			delete(p.registered, k)
			e.Removed = append(e.Removed, hash)
		}
	}
	if len(e.Removed) > 0 && p.capture {
		p.events = append(p.events, e)
	}
}

// naiveLineage contains inactive blocks and evicts the leaf that was inserted first. A block with cached descendants
// is not a leaf.
type naiveLineage struct {
	tick   int
	nodes  map[naivePlace]*naiveNode
	leaves map[naivePlace]bool // nodes with a block and without children
}

// naivePlace identifies a node.
type naivePlace struct {
	position int
	content  uint64
}

// naiveNode is a node of the lineage. A node without a block only connects its children to their ancestors.
type naiveNode struct {
	key      naiveKey
	block    bool
	stamp    int
	parent   *naivePlace
	children map[naivePlace]bool
}

func (k naiveKey) place() naivePlace { return naivePlace{k.position, k.content} }

// parentPlace returns the node of the previous block. Without caching, all blocks at a position have the same parent,
// which never contains a block.
func (k naiveKey) parentPlace() *naivePlace {
	if k.position == 0 {
		return nil
	}
	if !k.hasParent {
		return &naivePlace{position: k.position - 1}
	}
	return &naivePlace{k.position - 1, k.parent}
}

func (l *naiveLineage) node(at naivePlace) *naiveNode {
	if n, ok := l.nodes[at]; ok {
		return n
	}
	n := &naiveNode{children: make(map[naivePlace]bool)}
	l.nodes[at] = n
	return n
}

func (l *naiveLineage) insert(key naiveKey) {
	at := key.place()
	n := l.node(at)
	if n.block {
		panic(fmt.Sprintf("insert: block %v is inactive already", key))
	}
	n.key, n.block, n.stamp, n.parent = key, true, l.tick, key.parentPlace()
	l.tick++
	if n.parent != nil {
		p := l.node(*n.parent)
		if len(p.children) == 0 && p.block {
			delete(l.leaves, *n.parent)
		}
		p.children[at] = true
	}
	if len(n.children) == 0 {
		l.leaves[at] = true
	}
}

func (l *naiveLineage) evict() (naiveKey, bool) {
	var oldest naivePlace
	found := false
	for at := range l.leaves {
		if !found || cmp.Less(l.nodes[at].stamp, l.nodes[oldest].stamp) {
			oldest, found = at, true
		}
	}
	if !found {
		return naiveKey{}, false
	}
	key := l.nodes[oldest].key
	l.remove(key)
	return key, true
}

// remove removes a block if it is inactive. remove also removes nodes that then have neither blocks nor children.
func (l *naiveLineage) remove(key naiveKey) bool {
	at := key.place()
	n, ok := l.nodes[at]
	if !ok || !n.block || n.key != key {
		return false
	}
	delete(l.leaves, at)
	n.block = false
	for !n.block && len(n.children) == 0 {
		delete(l.nodes, at)
		if n.parent == nil {
			break
		}
		parent := *n.parent
		p := l.nodes[parent]
		delete(p.children, at)
		if len(p.children) == 0 && p.block {
			l.leaves[parent] = true
		}
		at, n = parent, p
	}
	return true
}

// cached reports whether a full block with that sequence hash is cached.
func (p *naivePool) cached(hash uint64) bool {
	if _, held := p.full[hash]; held {
		return true
	}
	for _, h := range p.registered {
		if h == hash {
			return true
		}
	}
	return false
}
