package prompt

import (
	"fmt"
	"math"
)

// forgetful is the nodes of a tree whose prompts are not known beforehand: nodes that nobody
// needs any more are forgotten, and their ids used again.
type forgetful struct {
	children map[childKey]NodeID
	ids      []uint64 // by node
	vacant   []NodeID
	needed   []bool // by node, while a sweep runs
	made     int    // nodes since the last sweep
	left     int    // nodes that the last sweep left
	room     []NodeID
}

type childKey struct {
	parent NodeID
	id     uint64
}

// NewForgetful returns an empty tree as NewTree does, which forgets nodes in a Sweep. Engine blocks must divide
// trace blocks. Its prompts come one by one, and their blocks have no names: it keeps no hash id longer than its node.
// An id of a node may be that of another later, also of one above it.
func NewForgetful(traceTokens, blockTokens int, o Options) *Tree {
	if traceTokens <= 0 || blockTokens <= 0 || traceTokens%blockTokens != 0 {
		panic(fmt.Sprintf("prompt tree that forgets: blocks of %d and %d tokens, want the second to divide the first", traceTokens, blockTokens))
	}
	return &Tree{
		traceTokens: traceTokens, blockTokens: blockTokens, perNode: traceTokens / blockTokens, wrap: o.Wrap,
		forgetful: &forgetful{children: make(map[childKey]NodeID)},
	}
}

// leastSweep is the number of new nodes that are worth a sweep.
const leastSweep = 1 << 12

// WantsSweep reports whether more nodes were made since the last sweep than it left, and enough to be worth one.
// It depends on the prompts alone.
func (t *Tree) WantsSweep() bool {
	f := t.forgetful
	return f != nil && f.made >= max(leastSweep, f.left)
}

// Sweep forgets all nodes but those that need is called with, and those above them.
func (t *Tree) Sweep(mark func(need func(NodeID))) {
	f := t.forgetful
	f.needed = append(f.needed[:0], make([]bool, len(t.parent))...)
	mark(func(n NodeID) {
		for ; n != None && !f.needed[n]; n = t.parent[n] {
			f.needed[n] = true
		}
	})
	for _, n := range f.vacant {
		f.needed[n] = true // is forgotten already
	}
	for n := range f.needed {
		if f.needed[n] {
			continue
		}
		delete(f.children, childKey{t.parent[n], f.ids[n]})
		f.vacant = append(f.vacant, NodeID(n))
	}
	f.made, f.left = 0, len(t.parent)-len(f.vacant)
}

// addForgetful is Add of a tree that forgets.
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

// internNode returns the node for a hash id after parent, made when there is none.
func (t *Tree) internNode(parent NodeID, id uint64) NodeID {
	f, key := t.forgetful, childKey{parent, id}
	if n, ok := f.children[key]; ok {
		return n
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
	if k := len(f.vacant); k > 0 {
		n := f.vacant[k-1]
		f.vacant = f.vacant[:k-1]
		t.parent[n], t.extents[n], f.ids[n] = parent, span, id
		f.children[key] = n
		return n
	}
	checkNodes(len(t.parent))
	n := NodeID(len(t.parent))
	t.parent, t.extents, f.ids = append(t.parent, parent), append(t.extents, span), append(f.ids, id)
	f.children[key] = n
	return n
}
