package prompt

import (
	"math/bits"
	"slices"
)

// joiner builds a joined tree. A node is a longest run of engine blocks that occur only together: every prompt with
// one block of a node has all its blocks.
//
// The joined tree is a radix tree that splits a node if a prompt diverges from it or ends in it. The lower half keeps
// the node's number, so that the last node of a prompt does not change.
//
// Traces number their blocks in the order of first use, and prompts with common blocks are near each other. So the
// table orders nodes by their first hash ids, one line of the processor's cache per range of ids. If that line is
// full, the node goes to a slot chosen by its hash. (The table of internal/probe would scatter the nodes.)
type joiner struct {
	per    int    // engine blocks of a hash id
	mask   uint64 // the bits of a hash id that count
	span   uint64 // estimated upper bound of most hash ids
	source func(i int) (ids []uint64, tokens int)
	nodes  []joint
	table  []child // children by parent and first hash id; at least half of the table is free
	shift  uint8   // id >> shift is the first slot to search, see findSlot
}

// joint is a node of a tree under construction.
type joint struct {
	parent int32 // -1: none
	extent
	owner int32  // index of a prompt with this node
	first uint64 // the hash id of the first block, masked
}

// child is an entry of the table. A different tag means a different node, so that the node need not be read.
type child struct {
	tag  uint32
	node int32 // 1 + the id of the node; 0: free
}

// newJoiner returns a joiner with capacity for more nodes than there are prompts.
func newJoiner(per int, wrap bool, count int, source func(i int) (ids []uint64, tokens int)) *joiner {
	room := count + count/4 + 16
	j := &joiner{per: per, mask: ^uint64(0), source: source, nodes: make([]joint, 0, room)}
	if wrap {
		j.mask = 1<<32 - 1
	}
	const samples = 16
	for i := range min(samples, count) {
		if ids, _ := source(count - 1 - i*count/samples); len(ids) > 0 {
			j.span = max(j.span, ids[len(ids)-1]&j.mask)
		}
	}
	j.layTable(1 << bits.Len(uint(room+room/2)))
	return j
}

// layTable makes an empty table of the given size, a power of two.
func (j *joiner) layTable(size int) {
	j.table = make([]child, size)
	j.shift = uint8(max(0, bits.Len64(j.span)-bits.Len(uint(size-1))))
}

// addPrompt adds the first blocks of a prompt and returns its last node, or -1 if there are none.
func (j *joiner) addPrompt(owner int32, ids []uint64, blocks int) int32 {
	at := int32(-1)
	for from := 0; from < blocks; {
		slot, tag := j.findSlot(at, ids[from/j.per])
		n := j.table[slot].node - 1
		if n < 0 {
			n = j.addLeaf(joint{at, extent{int32(from), int32(blocks)}, owner, ids[from/j.per] & j.mask})
			j.table[slot] = child{tag, n + 1}
			j.growTable()
			return n
		}
		from = j.commonEnd(&j.nodes[n], ids, blocks)
		if from < int(j.nodes[n].end) {
			n = j.splitNode(n, slot, int32(from))
		}
		at = n
	}
	return at
}

func (j *joiner) addLeaf(n joint) int32 {
	checkNodes(len(j.nodes))
	if len(j.nodes) == cap(j.nodes) {
		j.nodes = slices.Grow(j.nodes, len(j.nodes))
	}
	j.nodes = append(j.nodes, n)
	return int32(len(j.nodes)) - 1
}

// commonEnd returns the first block after the common part of n and a prompt.
func (j *joiner) commonEnd(n *joint, ids []uint64, blocks int) int {
	end := min(int(n.end), blocks)
	own, _ := j.source(int(n.owner))
	i, last := int(n.start)/j.per, (end-1)/j.per
	for i <= last && (own[i]^ids[i])&j.mask == 0 {
		i++
	}
	return min(i*j.per, end)
}

// splitNode splits n, which is in the given slot of the table, before block at. splitNode returns the new upper half.
func (j *joiner) splitNode(n int32, slot int, at int32) int32 {
	upper := j.addLeaf(j.nodes[n])
	j.nodes[upper].end = at
	own, _ := j.source(int(j.nodes[n].owner))
	j.nodes[n].parent, j.nodes[n].start, j.nodes[n].first = upper, at, own[int(at)/j.per]&j.mask
	j.table[slot].node = upper + 1
	j.enterNode(n)
	j.growTable()
	return upper
}

// nearby is the number of slots searched next to the first one: a line of the processor's cache.
const nearby = 8

// findSlot returns the slot of the child of parent that begins with id, or a free slot for it, and its tag.
func (j *joiner) findSlot(parent int32, id uint64) (slot int, tag uint32) {
	id &= j.mask
	mask := len(j.table) - 1
	h := (id ^ uint64(uint32(parent))<<32) * 0x9e3779b97f4a7c15
	tag = uint32(h >> 32)
	i := int(id>>j.shift) & mask
	for left := nearby - 1; ; left-- {
		c := j.table[i]
		if c.node == 0 || c.tag == tag && j.isChild(c.node-1, parent, id) {
			return i, tag
		}
		if i = (i + 1) & mask; left == 0 {
			i = int(h>>36) & mask
		}
	}
}

// isChild reports whether node is the child of parent that begins with id.
func (j *joiner) isChild(node, parent int32, id uint64) bool {
	n := &j.nodes[node]
	return n.parent == parent && n.first == id
}

// enterNode adds n to the table.
func (j *joiner) enterNode(n int32) {
	slot, tag := j.findSlot(j.nodes[n].parent, j.nodes[n].first)
	j.table[slot] = child{tag, n + 1}
}

// growTable doubles the table if less than half of it is free.
func (j *joiner) growTable() {
	if 2*len(j.nodes) <= len(j.table) {
		return
	}
	j.layTable(2 * len(j.table))
	for n := range j.nodes {
		j.enterNode(int32(n))
	}
}

// addJoined interns all prompts of the tree.
func (t *Tree) addJoined(count int, source func(i int) (ids []uint64, tokens int)) *List {
	if t.source != nil {
		panic("prompt tree: a joined tree takes its prompts once")
	}
	j := newJoiner(t.traceTokens/t.blockTokens, t.wrap, count, source)
	blocks, last := make([]int32, count), make([]int32, count)
	for i := range count {
		ids, tokens := source(i)
		blocks[i] = int32(tokens / t.blockTokens)
		last[i] = j.addPrompt(int32(i), ids, tokens/t.blockTokens)
	}
	t.numberNodes(j, last)
	t.source = source
	return &List{count: count, paths: t.paths, ends: last, blocks: blocks}
}

// numberNodes assigns ids to nodes in the order in which prompts first use them. numberNodes replaces the last node
// of each prompt in last with the end of the prompt's path.
func (t *Tree) numberNodes(j *joiner, last []int32) {
	ids := make([]NodeID, len(j.nodes)) // 1 + the id of each node; 0: no id yet
	t.parent = make([]NodeID, 0, len(j.nodes))
	t.extents = make([]extent, 0, len(j.nodes))
	t.owner = make([]int32, 0, len(j.nodes))
	t.paths = make([]NodeID, 0, 4*len(last))
	var path []int32
	for i := range last {
		path = path[:0]
		for n := last[i]; n >= 0; n = j.nodes[n].parent {
			path = append(path, n)
		}
		at := None
		for k := len(path) - 1; k >= 0; k-- {
			n := &j.nodes[path[k]]
			id := &ids[path[k]]
			if *id == 0 {
				t.parent = append(t.parent, at)
				t.extents = append(t.extents, n.extent)
				t.owner = append(t.owner, n.owner)
				*id = NodeID(len(t.parent))
			}
			at = *id - 1
			t.paths = append(t.paths, at)
		}
		last[i] = int32(len(t.paths))
	}
}
