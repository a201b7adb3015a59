package prompt

import (
	"fmt"
	"math"
	"slices"
)

// Tree is the prefix tree of all prompts of a workload, for one engine block
// size.
//
// If the engine's block size divides the trace's block size, a node is one trace block and has PerNode engine blocks.
// If the engine's block size does not divide the trace's, engine blocks straddle trace blocks, and a node is one
// engine block.
//
// In a joined tree a node is a longest run of full engine blocks that occur only together. Most prompts have one or
// two nodes in a joined tree.
type Tree struct {
	traceTokens int  // tokens per hash id
	blockTokens int  // tokens per engine block
	perNode     int  // engine blocks per node; 0 in a joined tree
	wrap        bool // only the low 32 bits of a hash id count
	hashed      bool // an id is the hash of its block

	contents contents
	parent   []NodeID
	extents  []extent
	owner    []int32 // index of a prompt with the node, in a joined tree
	source   func(i int) (ids []uint64, tokens int)

	content  []int32  // content number of the node
	first    []NodeID // first node made for each content number, usually the only one
	rest     map[edge]NodeID
	paths    []NodeID  // storage of the prompts' paths
	straddle *straddle // data of straddling blocks; nil if a node is a trace block
	hashes   hashes

	forgetful *forgetful // data for forgetting; nil: nodes are never forgotten
}

// extent is the range of engine blocks of a node, counted along its path.
type extent struct{ start, end int32 }

type edge struct {
	parent  NodeID
	content int32
}

// Options define how a Tree reads hash ids.
type Options struct {
	// Wrap makes only the low 32 bits of a hash id count, as in the reference.
	Wrap bool
	// Joined makes the tree a joined one: all of its prompts are added with one call of AddAll. Joined has no effect
	// if engine blocks straddle trace blocks.
	Joined bool
	// Hashed is true for real prompts: a hash id is the hash of its block's tokens, as LocalHash returns it. Trace
	// and engine blocks then have the same size.
	Hashed bool
}

// NewTree returns an empty tree for prompts given as hash ids of traceTokens
// tokens each, cut into engine blocks of blockTokens.
func NewTree(traceTokens, blockTokens int, o Options) *Tree {
	if traceTokens <= 0 || blockTokens <= 0 {
		panic(fmt.Sprintf("prompt tree: blocks of %d and %d tokens, must be > 0", traceTokens, blockTokens))
	}
	t := &Tree{traceTokens: traceTokens, blockTokens: blockTokens, perNode: 1, wrap: o.Wrap, hashed: o.Hashed}
	if traceTokens%blockTokens == 0 {
		t.perNode = traceTokens / blockTokens
		if o.Joined {
			t.perNode = 0
		}
	} else {
		t.straddle = newStraddle()
	}
	return t
}

// AddAll interns count prompts, given as the arguments of Add, and returns them. A joined tree keeps source and
// computes the hashes of its blocks from it.
func (t *Tree) AddAll(count int, source func(i int) (ids []uint64, tokens int)) *List {
	if t.perNode == 0 {
		return t.addJoined(count, source)
	}
	total := 0
	for i := range count {
		ids, _ := source(i)
		total += len(ids)
	}
	t.reserve(total)
	prompts := make([]Prompt, count)
	for i := range prompts {
		prompts[i] = t.Add(source(i))
	}
	return &List{count: count, plain: prompts}
}

// reserve makes room for prompts with the given total number of hash ids.
func (t *Tree) reserve(ids int) {
	if t.contents.dense == nil {
		t.contents.dense = make([]int32, ids)
	}
	t.parent = slices.Grow(t.parent, ids)
	t.extents = slices.Grow(t.extents, ids)
	t.content = slices.Grow(t.content, ids)
	t.contents.ids = slices.Grow(t.contents.ids, ids)
	t.first = slices.Grow(t.first, ids)
	t.paths = slices.Grow(t.paths, ids)
}

// PerNode returns the number of engine blocks of every node. PerNode returns 0 in a joined tree, because nodes differ
// in size there.
func (t *Tree) PerNode() int { return t.perNode }

// Start returns the number of engine blocks before those of n.
func (t *Tree) Start(n NodeID) int32 { return t.extents[n].start }

// End returns the number of engine blocks up to the last of n.
func (t *Tree) End(n NodeID) int32 { return t.extents[n].end }

// Size returns the number of engine blocks of n.
func (t *Tree) Size(n NodeID) int32 { return t.extents[n].end - t.extents[n].start }

// Full returns the nodes of p with its full blocks.
func (t *Tree) Full(p *Prompt) []NodeID {
	if t.perNode == 0 {
		return p.Nodes
	}
	return p.Nodes[:(int(p.Blocks)+t.perNode-1)/t.perNode]
}

// Index returns the index in path of the node with the given block.
func (t *Tree) Index(path []NodeID, block int) int {
	if t.perNode > 0 {
		return block / t.perNode
	}
	lo, hi := 0, len(path)-1
	for lo < hi {
		mid := int(uint(lo+hi+1) / 2)
		if int(t.extents[path[mid]].start) <= block {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo
}

// BlockTokens returns the number of tokens of an engine block.
func (t *Tree) BlockTokens() int { return t.blockTokens }

// Hashed reports whether hash ids are the hashes of blocks.
func (t *Tree) Hashed() bool { return t.hashed }

// Len returns the number of nodes.
func (t *Tree) Len() int { return len(t.parent) }

// Parent returns the node before n, or None.
func (t *Tree) Parent(n NodeID) NodeID { return t.parent[n] }

// Add interns the prompt of the given hash ids, cut to tokens. The ids must cover the tokens. A joined tree does not
// support Add.
func (t *Tree) Add(ids []uint64, tokens int) Prompt {
	if t.perNode == 0 {
		panic("prompt tree: Add to a joined tree, expected AddAll")
	}
	p := Prompt{Blocks: int32(tokens / t.blockTokens)}
	if t.straddle != nil {
		p.Nodes = t.addStraddling(ids, tokens)
		return p
	}
	n := (tokens + t.traceTokens - 1) / t.traceTokens
	if t.forgetful != nil {
		return t.addForgetful(ids[:n], p)
	}
	at, from := None, len(t.paths)
	for _, id := range ids[:n] {
		if t.wrap {
			id = uint64(uint32(id))
		}
		at = t.internChild(at, t.contents.intern(id))
		t.paths = append(t.paths, at)
	}
	p.Nodes = t.paths[from:len(t.paths):len(t.paths)]
	return p
}

// internChild returns the node for content after parent, and makes it if there is none.
func (t *Tree) internChild(parent NodeID, content int32) NodeID {
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
	checkNodes(len(t.parent))
	n := NodeID(len(t.parent))
	start := int32(0)
	if parent != None {
		start = t.extents[parent].end
	}
	if int(start) > math.MaxInt32-t.perNode {
		panic(fmt.Sprintf("prompt tree: a prompt of more than %d blocks of %d tokens", start, t.blockTokens))
	}
	t.parent = append(t.parent, parent)
	t.extents = append(t.extents, extent{start, start + int32(t.perNode)})
	t.content = append(t.content, content)
	if last == None {
		t.first[content] = n
	} else {
		t.rest[edge{parent, content}] = n
	}
	return n
}

// contents assigns a small number to each distinct hash id.
type contents struct {
	ids   []uint64         // ids of numbers
	dense []int32          // number + 1 by id, for small ids
	wide  map[uint64]int32 // number by id, for all other ids
}

// denseIDs is the size, in ids, up to which the table of small ids may grow in any case. The table may also grow to
// 16 times the number of ids.
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

// widen grows the dense table to hold id, and moves all ids that now fit from wide into it.
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
