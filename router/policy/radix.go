package policy

import (
	"slices"

	"github.com/replay-llm/replay/internal/heap"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// radix is a radix tree of the prompts that were sent to workers. Gateways keep a radix tree of the texts of prompts.
// A node is a list of blocks with the workers that they were sent to. Only evictions limit the size of the tree.
type radix struct {
	nodes   []radixNode // index 0 is the root
	vacant  []int32
	child   map[childKey]int32
	touches bool                               // some matches count as a use of the node that they reach
	sizes   []int64                            // by worker: blocks of the nodes that it holds
	epoch   uint64                             // number of matches and inserts
	leaves  heap.Heap[uint64, int64, struct{}] // scratch: nodes with a worker, by latest use
}

// radixNode is a list of blocks that follow the blocks of its ancestors.
type radixNode struct {
	text        []run
	blocks      int32 // number of blocks in text
	parent      int32
	first, next int32 // first child, and next sibling; 0: none
	owner       sim.WorkerID
	holders     []holder
}

// run is blocks that follow each other in every prompt: the blocks from from to until of a node of the prompt tree,
// or of an unshared prompt.
type run struct {
	name        int64
	from, until int32
}

// holder is a worker that a node was sent to, with the epoch of its latest use as a leaf.
type holder struct {
	worker sim.WorkerID
	used   uint64
}

type childKey struct {
	parent int32
	name   int64
	from   int32
}

func makeRadix(touches bool) *radix {
	return &radix{touches: touches, nodes: []radixNode{{owner: router.None}}, child: map[childKey]int32{}}
}

// appendRuns appends the full blocks of a prompt. Without a tree, appendRuns appends nothing.
func appendRuns(dst []run, tree *prompt.Tree, p *prompt.Prompt) []run {
	switch {
	case p.Blocks == 0 || tree == nil:
	case p.Unique():
		dst = append(dst, run{-int64(p.Seed), 0, p.Blocks})
	default:
		for _, n := range tree.Full(p) {
			dst = append(dst, run{int64(n), 0, min(tree.End(n), p.Blocks) - tree.Start(n)})
		}
	}
	return dst
}

// cut is a position in a list of runs.
type cut struct {
	piece int
	from  int32 // number of blocks of the run before the position
}

// descend returns the child of a node that shares its first block with text at a position, or 0. descend also returns
// the number of shared blocks and the position after them.
func (t *radix) descend(node int32, text []run, at cut) (child, common int32, after cut) {
	if at.piece == len(text) {
		return 0, 0, at
	}
	p := text[at.piece]
	child = t.child[childKey{node, p.name, p.from + at.from}]
	if child == 0 {
		return 0, 0, at
	}
	for _, x := range t.nodes[child].text {
		if at.piece == len(text) {
			break
		}
		p := text[at.piece]
		if p.name != x.name || p.from+at.from != x.from {
			break
		}
		n := min(x.until-x.from, p.until-x.from)
		common += n
		if at.from += n; p.from+at.from == p.until {
			at = cut{piece: at.piece + 1}
		}
		if x.from+n < x.until {
			break
		}
	}
	return child, common, at
}

// match returns the deepest node that a prompt reaches, perhaps only in part, and the number of blocks of the prompt
// in the tree.
func (t *radix) match(text []run) (node, blocks int32) {
	var at cut
	for {
		child, common, after := t.descend(node, text, at)
		if child == 0 {
			break
		}
		node, at, blocks = child, after, blocks+common
		if common < t.nodes[child].blocks {
			break
		}
	}
	if t.touches && t.epoch%8 == 0 { // one of eight matches counts as a use
		if h := t.holderOf(node, t.nodes[node].owner); h != nil {
			h.used = t.epoch
		}
	}
	t.epoch++
	return node, blocks
}

// holderOf returns the entry of a worker in a node, nil if it has none.
func (t *radix) holderOf(node int32, w sim.WorkerID) *holder {
	holders := t.nodes[node].holders
	for i := range holders {
		if holders[i].worker == w {
			return &holders[i]
		}
	}
	return nil
}

// isHeld reports whether w is one of the holders.
func (t *radix) isHeld(holders []holder, w sim.WorkerID) bool {
	return slices.ContainsFunc(holders, func(h holder) bool { return h.worker == w })
}

// insert records that a prompt is sent to w.
func (t *radix) insert(text []run, w sim.WorkerID) {
	for int(w) >= len(t.sizes) {
		t.sizes = append(t.sizes, 0)
	}
	var node int32
	var at cut
	for at.piece < len(text) {
		child, common, after := t.descend(node, text, at)
		if child == 0 {
			t.addLeaf(node, text, at, w)
			return
		}
		if common < t.nodes[child].blocks {
			child = t.split(child, common)
		}
		t.hold(child, w, 0)
		node, at = child, after
	}
	if node != 0 {
		t.hold(node, w, t.epoch)
	}
	t.epoch++
}

// hold makes w a holder of a node and raises the epoch of its use to used.
func (t *radix) hold(node int32, w sim.WorkerID, used uint64) {
	h := t.holderOf(node, w)
	if h == nil {
		n := &t.nodes[node]
		n.holders = append(n.holders, holder{worker: w})
		t.sizes[w] += int64(n.blocks)
		h = &n.holders[len(n.holders)-1]
	}
	h.used = max(h.used, used)
}

// add adds a node below parent and returns its index.
func (t *radix) add(parent int32, n radixNode) int32 {
	i := int32(len(t.nodes))
	if k := len(t.vacant); k > 0 {
		i, t.vacant = t.vacant[k-1], t.vacant[:k-1]
	} else {
		t.nodes = append(t.nodes, radixNode{})
	}
	for _, p := range n.text {
		n.blocks += p.until - p.from
	}
	n.parent, n.next = parent, t.nodes[parent].first
	t.nodes[i], t.nodes[parent].first = n, i
	t.child[childKey{parent, n.text[0].name, n.text[0].from}] = i
	return i
}

// addLeaf adds the blocks of a prompt after a position as a new leaf.
func (t *radix) addLeaf(parent int32, text []run, at cut, w sim.WorkerID) {
	rest := slices.Clone(text[at.piece:])
	rest[0].from += at.from
	i := t.add(parent, radixNode{text: rest, owner: w, holders: []holder{{w, t.epoch}}})
	t.sizes[w] += int64(t.nodes[i].blocks)
	t.epoch++
}

// split splits a node after the given number of blocks, and returns the upper part.
func (t *radix) split(node, blocks int32) (upper int32) {
	old := t.nodes[node]
	k, left := 0, blocks
	for ; left >= old.text[k].until-old.text[k].from; k++ {
		left -= old.text[k].until - old.text[k].from
	}
	head, tail := slices.Clone(old.text[:k]), old.text[k:]
	if left > 0 {
		head = append(head, run{tail[0].name, tail[0].from, tail[0].from + left})
		tail = slices.Clone(tail)
		tail[0].from += left
	}
	t.unlink(node)
	upper = t.add(old.parent, radixNode{text: head, owner: old.owner, holders: slices.Clone(old.holders)})
	n := &t.nodes[node]
	n.text, n.blocks, n.parent, n.next = tail, old.blocks-blocks, upper, 0
	t.nodes[upper].first = node
	t.child[childKey{upper, tail[0].name, tail[0].from}] = node
	return upper
}

// unlink removes a node from the children of its parent.
func (t *radix) unlink(node int32) {
	n := &t.nodes[node]
	delete(t.child, childKey{n.parent, n.text[0].name, n.text[0].from})
	link := &t.nodes[n.parent].first
	for *link != node {
		link = &t.nodes[*link].next
	}
	*link = n.next
}

// isLeaf reports whether w holds a node and none of its children.
func (t *radix) isLeaf(node int32, w sim.WorkerID) bool {
	if node == 0 || t.holderOf(node, w) == nil {
		return false
	}
	for c := t.nodes[node].first; c != 0; c = t.nodes[c].next {
		if t.holderOf(c, w) != nil {
			return false
		}
	}
	return true
}

// shrink removes w from leaves, the least recently used first, until w holds at most most blocks.
func (t *radix) shrink(w sim.WorkerID, most int64) {
	if int(w) >= len(t.sizes) || t.sizes[w] <= most {
		return
	}
	t.leaves = t.leaves[:0]
	t.pushLeaves(w)
	for len(t.leaves) > 0 && t.sizes[w] > most {
		t.releaseOldest()
	}
}

// shrinkAll removes workers from leaves, the least recently used first, until all workers together hold at most most
// blocks.
func (t *radix) shrinkAll(most int64) {
	total := int64(0)
	for _, n := range t.sizes {
		total += n
	}
	if total <= most {
		return
	}
	t.leaves = t.leaves[:0]
	for w := range t.sizes {
		t.pushLeaves(sim.WorkerID(w))
	}
	for len(t.leaves) > 0 && total > most {
		total -= t.releaseOldest()
	}
}

// pushLeaves adds the leaves of w to t.leaves.
func (t *radix) pushLeaves(w sim.WorkerID) {
	for i := range t.nodes {
		if t.isLeaf(int32(i), w) {
			t.pushLeaf(int32(i), w)
		}
	}
}

func (t *radix) pushLeaf(node int32, w sim.WorkerID) {
	t.leaves.Push(t.holderOf(node, w).used, int64(node)<<32|int64(w), struct{}{})
}

// releaseOldest removes the worker of the least recently used leaf, and returns the leaf's blocks. The parent is
// added to t.leaves if it has become a leaf.
func (t *radix) releaseOldest() int64 {
	leaf := t.leaves.Pop().Tie
	node, w := int32(leaf>>32), sim.WorkerID(int32(leaf))
	parent, blocks := t.nodes[node].parent, int64(t.nodes[node].blocks)
	t.release(node, w)
	if t.isLeaf(parent, w) {
		t.pushLeaf(parent, w)
	}
	return blocks
}

// release removes w from the holders of a node. A node without holders and children is removed.
func (t *radix) release(node int32, w sim.WorkerID) {
	n := &t.nodes[node]
	n.holders = slices.DeleteFunc(n.holders, func(h holder) bool { return h.worker == w })
	t.sizes[w] -= int64(n.blocks)
	if n.owner == w {
		n.owner = router.None
	}
	if n.first == 0 && len(n.holders) == 0 {
		t.unlink(node)
		t.nodes[node] = radixNode{}
		t.vacant = append(t.vacant, node)
	}
}
