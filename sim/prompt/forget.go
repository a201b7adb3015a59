package prompt

import (
	"fmt"
	"math"
	"math/bits"
)

// forgetful is the state of a tree for prompts that are not known beforehand. Unneeded nodes are forgotten and their
// ids reused.
type forgetful struct {
	ids    []uint64 // hash id of each node
	slots  []slot   // hash table of the nodes by parent and id, at least twice as many as nodes
	shift  uint8    // a 64-bit value shifted right by shift is below the number of slots
	vacant []NodeID
	needed []bool // nodes that are still needed, while a sweep runs
	made   int    // nodes made since the last sweep
	left   int    // nodes that the last sweep kept
	room   []NodeID
}

// slot is an entry of the hash table. Comparing the hash first avoids reading most other nodes, which are far apart
// in memory.
type slot struct {
	node NodeID // None if the slot is free
	hash uint32 // hash of the node
}

// NewForgetful returns an empty tree like NewTree, but Sweep forgets unneeded nodes. Engine blocks must divide trace
// blocks. Prompts are added one by one with Add, and the tree keeps no hash id longer than its node. Blocks have
// hashes only with Options.Hashed. The id of a forgotten node may later be the id of another node, even of an
// ancestor.
func NewForgetful(traceTokens, blockTokens int, o Options) *Tree {
	if traceTokens <= 0 || blockTokens <= 0 || traceTokens%blockTokens != 0 {
		panic(fmt.Sprintf("prompt tree that forgets: blocks of %d and %d tokens, expected the second to divide the first", traceTokens, blockTokens))
	}
	t := &Tree{
		traceTokens: traceTokens, blockTokens: blockTokens, perNode: traceTokens / blockTokens, wrap: o.Wrap, hashed: o.Hashed,
		forgetful: new(forgetful),
	}
	t.enterNodes(leastSlots)
	return t
}

// leastSlots is the initial number of slots, a power of two.
const leastSlots = 1 << 10

// enterNodes makes a new table of slots, a power of two, and adds all nodes that are not vacant.
func (t *Tree) enterNodes(slots int) {
	f := t.forgetful
	isVacant := make([]bool, len(t.parent))
	for _, n := range f.vacant {
		isVacant[n] = true
	}
	f.slots, f.shift = make([]slot, slots), uint8(65-bits.Len(uint(slots)))
	for i := range f.slots {
		f.slots[i].node = None
	}
	for n := range isVacant {
		if !isVacant[n] {
			i, hash := t.findSlot(t.parent[n], f.ids[n])
			f.slots[i] = slot{NodeID(n), hash}
		}
	}
}

// hashOf returns the hash of a node by its parent and id.
func hashOf(parent NodeID, id uint64) uint32 {
	h := (id ^ uint64(parent)<<32) * 0x9e3779b97f4a7c15
	h ^= h >> 29
	return uint32(h * 0xbf58476d1ce4e5b9 >> 32)
}

// home returns the slot where the search for a node begins.
func (f *forgetful) home(hash uint32) int { return int(uint64(hash) << 32 >> (f.shift & 63)) }

// findSlot returns the slot of the node for a hash id after parent, or the free slot for the node, and the hash.
func (t *Tree) findSlot(parent NodeID, id uint64) (i int, hash uint32) {
	f := t.forgetful
	mask := len(f.slots) - 1
	hash = hashOf(parent, id)
	for i = f.home(hash); ; i = (i + 1) & mask {
		x := &f.slots[i]
		if x.node == None || x.hash == hash && t.parent[x.node] == parent && f.ids[x.node] == id {
			return i, hash
		}
	}
}

// freeSlot removes a node from its slot, and closes the gap in the table.
func (t *Tree) freeSlot(n NodeID) {
	f := t.forgetful
	slots, mask := f.slots, len(f.slots)-1
	gap := f.home(hashOf(t.parent[n], f.ids[n]))
	for slots[gap].node != n {
		gap = (gap + 1) & mask
	}
	for i := (gap + 1) & mask; slots[i].node != None; i = (i + 1) & mask {
		if x := slots[i]; (i-f.home(x.hash))&mask >= (i-gap)&mask {
			slots[gap] = x
			gap = i
		}
	}
	slots[gap].node = None
}

// leastSweep is the minimum number of new nodes for a sweep.
const leastSweep = 1 << 12

// WantsSweep reports whether at least as many nodes were made since the last sweep as it kept, and at least
// leastSweep. The result depends on the prompts alone.
func (t *Tree) WantsSweep() bool {
	f := t.forgetful
	return f != nil && f.made >= max(leastSweep, f.left)
}

// Sweep forgets all nodes except the nodes passed to need, and their ancestors.
func (t *Tree) Sweep(mark func(need func(NodeID))) {
	f := t.forgetful
	f.needed = append(f.needed[:0], make([]bool, len(t.parent))...)
	mark(func(n NodeID) {
		for ; n != None && !f.needed[n]; n = t.parent[n] {
			f.needed[n] = true
		}
	})
	for _, n := range f.vacant {
		f.needed[n] = true // already forgotten
	}
	for n := range f.needed {
		if f.needed[n] {
			continue
		}
		t.freeSlot(NodeID(n))
		t.hashes.forget(NodeID(n))
		f.vacant = append(f.vacant, NodeID(n))
	}
	f.made, f.left = 0, len(t.parent)-len(f.vacant)
}

// addForgetful implements Add for a tree that forgets.
func (t *Tree) addForgetful(ids []uint64, p Prompt) Prompt {
	f := t.forgetful
	if len(f.room) < len(ids) {
		f.room = make([]NodeID, max(len(ids), 4096))
	}
	p.Nodes = f.room[:len(ids):len(ids)]
	f.room = f.room[len(ids):]
	at := None
	for i, id := range ids {
		if t.wrap {
			id = uint64(uint32(id))
		}
		at = t.internNode(at, id)
		p.Nodes[i] = at
	}
	return p
}

// internNode returns the node for a hash id after parent, and makes it if there is none.
func (t *Tree) internNode(parent NodeID, id uint64) NodeID {
	f := t.forgetful
	i, hash := t.findSlot(parent, id)
	if n := f.slots[i].node; n != None {
		return n
	}
	if 2*(len(t.parent)-len(f.vacant)) >= len(f.slots) {
		t.enterNodes(2 * len(f.slots))
		i, hash = t.findSlot(parent, id)
	}
	f.made++
	start := int32(0)
	if parent != None {
		start = t.extents[parent].end
	}
	if int(start) > math.MaxInt32-t.perNode {
		panic(fmt.Sprintf("prompt tree: a prompt of more than %d blocks of %d tokens", start, t.blockTokens))
	}
	span := extent{start, start + int32(t.perNode)}
	var n NodeID
	if k := len(f.vacant); k > 0 {
		n, f.vacant = f.vacant[k-1], f.vacant[:k-1]
		t.parent[n], t.extents[n], f.ids[n] = parent, span, id
	} else {
		checkNodes(len(t.parent))
		n = NodeID(len(t.parent))
		t.parent, t.extents, f.ids = append(t.parent, parent), append(t.extents, span), append(f.ids, id)
	}
	f.slots[i] = slot{n, hash}
	return n
}
