package reference

import (
	"fmt"
	"math"

	"github.com/replay-llm/replay/internal/heap"
	"github.com/replay-llm/replay/internal/invariant"
	"github.com/replay-llm/replay/internal/probe"
)

// tree is the radix tree of cached pages.
//
// A node is a stretch of pages of some sequence. Walks compare the keys of
// pages, and of a stretch usually only the last, so a walk costs the nodes it
// passes, not their pages.
type tree struct {
	perNode int32 // pages of a prompt node

	sheets   []*[sheetNodes]node        // nodes stay where they are
	len      int                        // nodes, those not in use among them
	free     []int32                    // nodes not in use
	children probe.Table[uint64, int32] // by childKey
	leaves   leaves

	pages     int   // in the tree
	leafPages int   // in unlocked nodes without children
	clock     int64 // the latest tick
	content   int64 // counts what can change a lookup
	watch     watcher
}

// node is a stretch of pages [from, to) of a sequence.
type node struct {
	seq      sequence
	from, to int32
	parent   int32
	children int32
	locks    int32
	stamp    int64 // the tick of the last walk over it
	leaf     bool  // evictable: without locks and children
	listed   bool  // it has an entry in the heap of leaves
	// grain marks what a request has cached token by token: each page is a node of
	// its own to whoever splits or evicts.
	grain bool
}

// watcher follows what happens to the pages of a tree.
type watcher interface {
	stored(t *tree, n int32)              // node n is new
	split(t *tree, upper, lower int32)    // lower was cut, its first part is upper now
	removed(t *tree, n int32, from int32) // the pages of n from page from on are about to go
}

const root = int32(0)

func newTree(perNode int) *tree {
	t := &tree{perNode: int32(perNode), children: probe.New[uint64, int32](^uint64(0))}
	t.newNode() // the root
	return t
}

// sheetNodes is the number of nodes made at a time.
const sheetNodes = 64

// at returns node n.
func (t *tree) at(n int32) *node { return &t.sheets[uint32(n)/sheetNodes][uint32(n)%sheetNodes] }

func (n *node) size() int { return int(n.to - n.from) }

// evictPages returns the number of pages that evicting the node, a leaf, frees.
func (n *node) evictPages() int {
	if n.grain {
		return 1
	}
	return n.size()
}

// childKey returns the key of the child of a node that begins with a page: 31 bits
// of the node, 33 of the page.
func childKey(parent int32, page pageKey) uint64 { return uint64(parent)<<33 | uint64(page) }

// child returns the child of a node that begins with a page; root, which is
// nobody's child, when there is none.
func (t *tree) child(parent int32, page pageKey) int32 {
	return *t.children.Get(childKey(parent, page))
}

func (t *tree) setChild(parent int32, page pageKey, child int32) {
	c, _ := t.children.Put(childKey(parent, page))
	*c = child
}

func (t *tree) tick() int64 {
	t.clock++
	return t.clock
}

// match walks down the first pages pages of s, which it stamps, and returns how
// many of them are cached and the node that ends there.
func (t *tree) match(s *sequence, pages int32) (int32, int32) {
	return t.walk(s, pages, t.tick())
}

// walk does what match does, at the given tick. A node in which it ends is split.
func (t *tree) walk(s *sequence, pages int32, now int64) (int32, int32) {
	at, m := root, int32(0)
	for m < pages {
		child := t.child(at, s.key(m, t.perNode))
		if child == root {
			break
		}
		n := t.at(child)
		end := commonPages(&n.seq, s, m, min(n.to, pages), t.perNode)
		if end < n.to {
			return end, t.split(child, end, now)
		}
		t.stamp(child, now)
		at, m = child, end
	}
	return m, at
}

// lookup returns how many of the first pages pages of s are cached. It changes
// nothing.
func (t *tree) lookup(s *sequence, pages int32) int32 {
	at, m := root, int32(0)
	for m < pages {
		child := t.child(at, s.key(m, t.perNode))
		if child == root {
			break
		}
		n := t.at(child)
		m = commonPages(&n.seq, s, m, min(n.to, pages), t.perNode)
		if m < n.to {
			break
		}
		at = child
	}
	return m
}

// insert caches the first pages pages of s and returns how many were cached
// before, and the node that ends there.
func (t *tree) insert(s *sequence, pages int32) (int32, int32) {
	if pages == 0 {
		return 0, root
	}
	m, at := t.walk(s, pages, t.tick())
	if m < pages {
		at = t.createNode(at, s, m, pages)
		t.at(at).stamp = t.tick()
		t.addLeaf(at)
		if t.watch != nil {
			t.watch.stored(t, at)
		}
	}
	return m, at
}

// graft caches pages [from, to) of s below node at, each as a node of its own,
// with one lock.
func (t *tree) graft(at int32, s *sequence, from, to int32) int32 {
	n := t.createNode(at, s, from, to)
	t.at(n).grain, t.at(n).locks = true, 1
	if t.watch != nil {
		t.watch.stored(t, n)
	}
	return n
}

// createNode adds an unlocked node that is not in the set of leaves yet.
func (t *tree) createNode(parent int32, s *sequence, from, to int32) int32 {
	n := t.newNode()
	*t.at(n) = node{seq: *s, from: from, to: to, parent: parent}
	up := t.at(parent)
	if up.leaf {
		t.removeLeaf(parent)
	}
	up.children++
	t.setChild(parent, s.key(from, t.perNode), n)
	t.pages += int(to - from)
	t.content++
	return n
}

func (t *tree) newNode() int32 {
	if last := len(t.free) - 1; last >= 0 {
		n := t.free[last]
		t.free = t.free[:last]
		return n
	}
	if t.len > math.MaxInt32 {
		panic(fmt.Sprintf("radix tree: %d nodes, want at most 2^31", t.len))
	}
	if t.len%sheetNodes == 0 {
		t.sheets = append(t.sheets, new([sheetNodes]node))
	}
	t.len++
	return int32(t.len - 1)
}

// split cuts node low before page at and returns the new node that holds its
// first part; low keeps its locks, children and holders.
func (t *tree) split(low, at int32, now int64) int32 {
	up := t.newNode()
	n := t.at(low)
	key := n.seq.key(n.from, t.perNode)
	*t.at(up) = node{
		seq: n.seq, from: n.from, to: at, parent: n.parent, children: 1,
		locks: n.locks, stamp: n.stamp, grain: n.grain,
	}
	if n.leaf && !n.grain {
		t.leafPages -= int(at - n.from)
	}
	t.setChild(n.parent, key, up)
	n.from, n.parent = at, up
	t.setChild(up, n.seq.key(at, t.perNode), low)
	if n.grain {
		t.at(up).stamp = now // its pages were passed whole
	}
	if t.watch != nil {
		t.watch.split(t, up, low)
	}
	return up
}

// stamp marks n as walked over at now, unless it has been later.
func (t *tree) stamp(n int32, now int64) {
	x := t.at(n)
	x.stamp = max(x.stamp, now)
}

// stampPath marks n and all before it.
func (t *tree) stampPath(n int32, now int64) {
	for ; n != root; n = t.at(n).parent {
		t.stamp(n, now)
	}
}

// lock keeps n and all before it from eviction.
func (t *tree) lock(n int32) {
	for ; n != root; n = t.at(n).parent {
		x := t.at(n)
		if x.locks++; x.locks == 1 {
			if x.leaf {
				t.removeLeaf(n)
			}
		}
	}
}

// unlock takes a lock back.
func (t *tree) unlock(n int32) {
	for ; n != root; n = t.at(n).parent {
		x := t.at(n)
		if invariant.Enabled && x.locks == 0 {
			panic(fmt.Sprintf("radix tree: unlock of node %d, which has no lock", n))
		}
		if x.locks--; x.locks == 0 {
			if x.children == 0 {
				t.addLeaf(n)
			}
		}
	}
}

// evict frees at least want pages, oldest leaf first and leaf by leaf, and
// returns how many it freed; fewer than want only when there are no more.
func (t *tree) evict(want int) int {
	freed := 0
	for freed < want {
		n := t.oldestLeaf()
		if n == root {
			break
		}
		t.content++
		x := t.at(n)
		cut := x.size()
		if x.grain {
			cut = min(cut, want-freed)
		}
		freed += cut
		t.prune(n, cut)
	}
	return freed
}

// prune removes the last cut pages of n, the oldest leaf; all of it where it is
// no grain.
func (t *tree) prune(n int32, cut int) {
	x := t.at(n)
	if t.watch != nil {
		t.watch.removed(t, n, x.to-int32(cut))
	}
	t.pages -= cut
	if cut < x.size() {
		x.to -= int32(cut)
		return
	}
	t.removeLeaf(n)
	t.leaves.Pop()
	t.children.Delete(childKey(x.parent, x.seq.key(x.from, t.perNode)))
	parent := x.parent
	x.seq = sequence{}
	t.free = append(t.free, n)
	up := t.at(parent)
	if up.children--; up.children == 0 && up.locks == 0 && parent != root {
		t.addLeaf(parent)
	}
}

// leaves has the evictable nodes of a tree, the Tie of an entry, by a stamp, its
// Key. No two evictable nodes have the same stamp.
//
// A node has one entry at most, which stays when the node is walked over or
// locked or has a child: stamps only grow, so entries come up in time to be put
// right.
type leaves = heap.Heap[int64, int32, struct{}]

// addLeaf makes n evictable.
func (t *tree) addLeaf(n int32) {
	x := t.at(n)
	x.leaf = true
	t.leafPages += x.evictPages()
	if !x.listed {
		x.listed = true
		t.leaves.Push(x.stamp, n, struct{}{})
	}
}

// removeLeaf makes n not evictable.
func (t *tree) removeLeaf(n int32) {
	x := t.at(n)
	x.leaf = false
	t.leafPages -= x.evictPages()
}

// oldestLeaf returns the evictable node with the lowest stamp, whose entry is
// then the first of t.leaves; root when nothing is evictable.
func (t *tree) oldestLeaf() int32 {
	for len(t.leaves) > 0 {
		n := t.leaves[0].Tie
		x := t.at(n)
		switch {
		case !x.leaf:
			x.listed = false
			t.leaves.Pop()
		case x.stamp != t.leaves[0].Key:
			t.leaves.SetFirst(x.stamp, n)
		default:
			return n
		}
	}
	return root
}
