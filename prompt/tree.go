package prompt

import (
	"fmt"
	"slices"
)

// Tree is the prefix tree of all prompts of a workload, for one engine block
// size.
//
// When the engine's block divides the trace's block, a node is one trace block
// and holds PerNode engine blocks. Otherwise engine blocks straddle trace
// blocks, and a node is one engine block.
type Tree struct {
	traceTokens int // tokens per hash id
	blockTokens int // tokens per engine block
	perNode     int
	wrap        bool // only the low 32 bits of a hash id count

	contents contents
	parent   []NodeID
	content  []int32  // what the node's piece holds
	first    []NodeID // by content: the node made last for it, usually the only one
	rest     map[edge]NodeID
	paths    []NodeID  // memory of prompts' paths
	straddle *straddle // nil when a node is a trace block
	hashes   hashes
}

type edge struct {
	parent  NodeID
	content int32
}

// Options says how a Tree reads hash ids.
type Options struct {
	// Wrap makes only the low 32 bits of a hash id count, as in the reference.
	Wrap bool
}

// NewTree returns an empty tree for prompts given as hash ids of traceTokens
// tokens each, cut into engine blocks of blockTokens.
func NewTree(traceTokens, blockTokens int, o Options) *Tree {
	if traceTokens <= 0 || blockTokens <= 0 {
		panic(fmt.Sprintf("prompt tree: blocks of %d and %d tokens, want > 0", traceTokens, blockTokens))
	}
	t := &Tree{traceTokens: traceTokens, blockTokens: blockTokens, perNode: 1, wrap: o.Wrap}
	if traceTokens%blockTokens == 0 {
		t.perNode = traceTokens / blockTokens
	} else {
		t.straddle = newStraddle()
	}
	return t
}

// Grow makes room for prompts of ids hash ids in all.
func (t *Tree) Grow(ids int) {
	if t.contents.dense == nil {
		t.contents.dense = make([]int32, ids)
	}
	t.parent = slices.Grow(t.parent, ids)
	t.content = slices.Grow(t.content, ids)
	t.contents.ids = slices.Grow(t.contents.ids, ids)
	t.first = slices.Grow(t.first, ids)
	t.paths = slices.Grow(t.paths, ids)
}

// PerNode is the number of engine blocks of a node.
func (t *Tree) PerNode() int { return t.perNode }

// BlockTokens is the number of tokens of an engine block.
func (t *Tree) BlockTokens() int { return t.blockTokens }

// Len is the number of nodes.
func (t *Tree) Len() int { return len(t.parent) }

// Parent is the node before n, or None.
func (t *Tree) Parent(n NodeID) NodeID { return t.parent[n] }

// Add interns the prompt of the given hash ids cut to tokens, which the ids
// cover.
func (t *Tree) Add(ids []uint64, tokens int) Prompt {
	p := Prompt{Blocks: int32(tokens / t.blockTokens)}
	if t.straddle != nil {
		p.Nodes = t.addStraddling(ids, tokens)
		return p
	}
	n := (tokens + t.traceTokens - 1) / t.traceTokens
	at, from := None, len(t.paths)
	for _, id := range ids[:n] {
		if t.wrap {
			id = uint64(uint32(id))
		}
		at = t.child(at, t.contents.intern(id))
		t.paths = append(t.paths, at)
	}
	p.Nodes = t.paths[from:len(t.paths):len(t.paths)]
	return p
}

// child is the node for content after parent, made when there is none.
func (t *Tree) child(parent NodeID, content int32) NodeID {
	for int(content) >= len(t.first) {
		t.first = append(t.first, None)
	}
	last := t.first[content]
	if last != None && t.parent[last] == parent {
		return last
	}
	if last != None {
		if n, ok := t.rest[edge{parent, content}]; ok {
			return n
		}
		if t.rest == nil {
			t.rest = make(map[edge]NodeID)
		}
	}
	n := NodeID(len(t.parent))
	t.parent = append(t.parent, parent)
	t.content = append(t.content, content)
	if last == None {
		t.first[content] = n
	} else {
		t.rest[edge{parent, content}] = n
	}
	return n
}

// contents gives each distinct hash id a small number.
type contents struct {
	ids   []uint64         // by number
	dense []int32          // number + 1 by id, while ids are small
	wide  map[uint64]int32 // number by id, for the others
}

// denseIDs bounds the table of small ids: 16 times the ids seen, and some.
const denseIDs = 1 << 16

func (c *contents) intern(id uint64) int32 {
	if id < uint64(len(c.dense)) {
		if n := c.dense[id]; n > 0 {
			return n - 1
		}
	} else if n, ok := c.wide[id]; ok {
		return n
	}
	n := int32(len(c.ids))
	c.ids = append(c.ids, id)
	if id >= uint64(len(c.dense)) && id < denseIDs+16*uint64(len(c.ids)) {
		c.widen(id)
	}
	if id < uint64(len(c.dense)) {
		c.dense[id] = n + 1
		return n
	}
	if c.wide == nil {
		c.wide = make(map[uint64]int32)
	}
	c.wide[id] = n
	return n
}

// widen grows the dense table to hold id, and moves into it what it now covers.
func (c *contents) widen(id uint64) {
	size := max(2*len(c.dense), 1024)
	for uint64(size) <= id {
		size *= 2
	}
	grown := make([]int32, size)
	copy(grown, c.dense)
	c.dense = grown
	for k, n := range c.wide {
		if k < uint64(size) {
			grown[k] = n + 1
			delete(c.wide, k)
		}
	}
}
