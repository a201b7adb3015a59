// Package radix is the radix tree of the pages that a simulated SGLang engine caches. Package radix supports SGLang's
// own rules and the reference's, and FuzzTree compares it with a simple implementation.
package radix

import (
	"fmt"
	"math"

	"github.com/replay-llm/replay/internal/invariant"
	"github.com/replay-llm/replay/internal/probe"
)

// Tree is the radix tree of cached pages.
//
// A node is a range of consecutive pages of a sequence. A walk usually compares only the key of the last page of a
// node, so that its cost depends on the number of nodes, not of pages.
type Tree struct {
	PerNode int32   // pages per prompt node
	Watch   Watcher // receiver of changes; nil: none
	// StampSplits renews the stamps of both parts of a split node, as SGLang does; the first part becomes the
	// younger. Without StampSplits, both parts keep the stamp of the node.
	StampSplits bool

	windows  *Windows                   // data of windows; nil: no layer has a window
	host     *Host                      // host memory; nil: none
	ranks    *ranks                     // ranks of nodes; nil: eviction by stamps
	sheets   []*[sheetNodes]Node        // nodes; their addresses do not change
	len      int                        // number of nodes, including unused ones
	free     []int32                    // indices of unused nodes
	children probe.Table[uint64, int32] // children of nodes by childKey
	leaves   leaves

	Pages         int   // all pages of the tree
	UnlockedPages int   // pages in nodes without locks
	LeafPages     int   // pages in nodes without locks and children
	Clock         int64 // the latest tick
	Content       int64 // incremented by each change that can change a lookup
}

// Node is the range of pages [From, To) of a sequence.
type Node struct {
	Seq      Sequence
	From, To int32
	Parent   int32
	children int32
	Locks    int32
	stamp    int64 // the tick of the last walk over the node
	leaf     bool  // evictable: without locks and children
	listed   bool  // the node has an entry in the heap of leaves
	dead     bool  // the node was removed, but has an entry in the heap of leaves
	// Grain marks pages that a request has cached one by one: in splits and evictions, each page counts as a separate
	// node.
	Grain bool
}

// Watcher receives the changes of the pages of a tree.
type Watcher interface {
	Stored(t *Tree, n int32)           // node n is new
	Split(t *Tree, upper, lower int32) // lower was split, and its first part is upper now
	Removed(t *Tree, n, from int32)    // the pages of n starting at page from are about to be removed
}

// Root is the root node. The root has no pages and is never locked or evicted.
const Root = int32(0)

// New returns an empty tree for prompts with nodes of perNode pages each.
func New(perNode int) *Tree {
	t := &Tree{PerNode: int32(perNode), children: probe.New[uint64, int32](^uint64(0))}
	t.newNode() // the root
	return t
}

// sheetNodes is the number of nodes allocated at once.
const sheetNodes = 64

// At returns node n.
func (t *Tree) At(n int32) *Node { return &t.sheets[uint32(n)/sheetNodes][uint32(n)%sheetNodes] }

// Size returns the number of the node's pages.
func (n *Node) Size() int { return int(n.To - n.From) }

// evictPages returns the number of pages that the eviction of the node, a leaf, frees.
func (n *Node) evictPages() int {
	if n.Grain {
		return 1
	}
	return n.Size()
}

// childKey returns the map key for the child of a node that begins with a page: 31 bits of the node and 33 bits of
// the page.
func childKey(parent int32, page Key) uint64 { return uint64(parent)<<33 | uint64(page) }

// child returns the child of a node that begins with a page. child returns Root, which is never a child, if there is
// no such child.
func (t *Tree) child(parent int32, page Key) int32 {
	return *t.children.Get(childKey(parent, page))
}

func (t *Tree) setChild(parent int32, page Key, child int32) {
	c, _ := t.children.Put(childKey(parent, page))
	*c = child
}

// Tick advances the clock and returns it.
func (t *Tree) Tick() int64 {
	t.Clock++
	return t.Clock
}

// Match finds the longest cached prefix of the first pages of s, and stamps its nodes. Match returns the number of
// cached pages and the node that ends after them.
func (t *Tree) Match(s *Sequence, pages int32) (int32, int32) {
	return t.walk(s, pages, t.Tick())
}

// walk implements Match for a given tick. If the prefix ends inside a node, the node is split.
func (t *Tree) walk(s *Sequence, pages int32, now int64) (int32, int32) {
	at, m := Root, int32(0)
	for m < pages {
		child := t.child(at, s.KeyOf(m, t.PerNode))
		if child == Root {
			break
		}
		n := t.At(child)
		end := commonPages(&n.Seq, s, m, min(n.To, pages), t.PerNode)
		if end < n.To {
			return end, t.split(child, end, now)
		}
		t.stamp(child, now)
		at, m = child, end
	}
	return m, at
}

// step goes from node at, which ends at page from of s, to its next node for s, with a new tick. step returns this
// node and the page at which it ends, or Root if there is no such node. The node is split where it differs from s or
// exceeds page to.
func (t *Tree) step(at int32, s *Sequence, from, to int32) (child, end int32) {
	if child = t.child(at, s.KeyOf(from, t.PerNode)); child == Root {
		return Root, from
	}
	now := t.Tick()
	t.stamp(child, now)
	n := t.At(child)
	if end = commonPages(&n.Seq, s, from, min(n.To, to), t.PerNode); end < n.To {
		child = t.split(child, end, now)
	}
	return child, end
}

// Lookup returns how many of the first pages of s are cached. Lookup does not change the tree.
func (t *Tree) Lookup(s *Sequence, pages int32) int32 {
	at, m := Root, int32(0)
	for m < pages {
		child := t.child(at, s.KeyOf(m, t.PerNode))
		if child == Root {
			break
		}
		n := t.At(child)
		m = commonPages(&n.Seq, s, m, min(n.To, pages), t.PerNode)
		if m < n.To {
			break
		}
		at = child
	}
	return m
}

// Insert caches the first pages of s. Insert returns how many of these pages were cached before, and the node that
// ends after them.
func (t *Tree) Insert(s *Sequence, pages int32) (int32, int32) {
	if pages == 0 {
		return 0, Root
	}
	m, at := t.walk(s, pages, t.Tick())
	if m < pages {
		at = t.insertLeaf(at, s, m, pages)
	}
	return m, at
}

// insertLeaf adds a node with pages [from, to) of s below node at and returns it.
func (t *Tree) insertLeaf(at int32, s *Sequence, from, to int32) int32 {
	n := t.createNode(at, s, from, to)
	t.At(n).stamp = t.Tick()
	t.addLeaf(n)
	if t.Watch != nil {
		t.Watch.Stored(t, n)
	}
	return n
}

// Graft adds pages [from, to) of s below node at as a grain node with one lock, and returns it.
func (t *Tree) Graft(at int32, s *Sequence, from, to int32) int32 {
	n := t.createNode(at, s, from, to)
	t.At(n).Grain, t.At(n).Locks = true, 1
	t.UnlockedPages -= int(to - from)
	if t.Watch != nil {
		t.Watch.Stored(t, n)
	}
	return n
}

// createNode adds an unlocked node that is not in leaves yet.
func (t *Tree) createNode(parent int32, s *Sequence, from, to int32) int32 {
	n := t.newNode()
	*t.At(n) = Node{Seq: *s, From: from, To: to, Parent: parent}
	if t.windows != nil {
		*t.windows.at(n) = windowNode{}
	}
	if t.host != nil {
		t.host.addNode(n, parent)
	}
	if t.ranks != nil {
		t.ranks.begin(t, n)
	}
	up := t.At(parent)
	if up.leaf {
		t.removeLeaf(parent)
	}
	up.children++
	t.setChild(parent, s.KeyOf(from, t.PerNode), n)
	t.Pages += int(to - from)
	t.UnlockedPages += int(to - from)
	t.Content++
	return n
}

func (t *Tree) newNode() int32 {
	if last := len(t.free) - 1; last >= 0 {
		n := t.free[last]
		t.free = t.free[:last]
		return n
	}
	if t.len > math.MaxInt32 {
		panic(fmt.Sprintf("radix tree: %d nodes, must be at most 2^31", t.len))
	}
	if t.len%sheetNodes == 0 {
		t.sheets = append(t.sheets, new([sheetNodes]Node))
	}
	t.len++
	return int32(t.len - 1)
}

// split splits node low before page at and returns the new node with the first part. low keeps its locks, children
// and holders.
func (t *Tree) split(low, at int32, now int64) int32 {
	up := t.newNode()
	n := t.At(low)
	key := n.Seq.KeyOf(n.From, t.PerNode)
	*t.At(up) = Node{
		Seq: n.Seq, From: n.From, To: at, Parent: n.Parent, children: 1,
		Locks: n.Locks, stamp: n.stamp, Grain: n.Grain,
	}
	if n.leaf && !n.Grain {
		t.LeafPages -= int(at - n.From)
	}
	t.setChild(n.Parent, key, up)
	n.From, n.Parent = at, up
	t.setChild(up, n.Seq.KeyOf(at, t.PerNode), low)
	switch {
	case t.StampSplits:
		t.stamp(low, now)
		t.At(up).stamp = t.Tick()
	case n.Grain:
		t.At(up).stamp = now // all pages of this part were passed
	}
	if t.windows != nil {
		t.windows.split(up, low)
	}
	if t.ranks != nil {
		t.ranks.split(t, up, low)
	}
	away := t.host != nil && t.host.splitNode(up, low)
	if t.Watch != nil && !away {
		t.Watch.Split(t, up, low)
	}
	return up
}

// stamp sets the stamp of n to now, unless the stamp is later.
func (t *Tree) stamp(n int32, now int64) {
	x := t.At(n)
	x.stamp = max(x.stamp, now)
}

// StampPath stamps n and its ancestors.
func (t *Tree) StampPath(n int32, now int64) {
	for ; n != Root; n = t.At(n).Parent {
		t.stamp(n, now)
	}
}

// Lock protects n and its ancestors from eviction.
func (t *Tree) Lock(n int32) {
	for ; n != Root; n = t.At(n).Parent {
		x := t.At(n)
		if x.Locks++; x.Locks == 1 {
			t.UnlockedPages -= x.Size()
			if x.leaf {
				t.removeLeaf(n)
			}
		}
	}
}

// Unlock reverts one Lock.
func (t *Tree) Unlock(n int32) {
	for ; n != Root; n = t.At(n).Parent {
		x := t.At(n)
		if invariant.Enabled && x.Locks == 0 {
			panic(fmt.Sprintf("radix tree: unlock of node %d, which has no lock", n))
		}
		if x.Locks--; x.Locks == 0 {
			t.UnlockedPages += x.Size()
			if x.children == 0 {
				t.addLeaf(n)
			}
		}
	}
}

// Evict frees at least want pages, oldest leaf first, and returns the number of freed pages. Evict frees fewer pages
// only if no more are evictable.
func (t *Tree) Evict(want int) int {
	freed := 0
	for freed < want {
		n := t.oldestLeaf()
		if n == Root {
			break
		}
		t.Content++
		x := t.At(n)
		cut := x.Size()
		if x.Grain {
			cut = min(cut, want-freed)
		}
		freed += cut
		if t.host != nil {
			t.host.evictLeaf(n)
		} else {
			t.prune(n, cut)
		}
	}
	return freed
}

// prune removes the last cut pages of the leaf n. If n is not a grain, cut must be the size of n.
func (t *Tree) prune(n int32, cut int) {
	x := t.At(n)
	if t.Watch != nil {
		t.Watch.Removed(t, n, x.To-int32(cut))
	}
	t.Pages -= cut
	t.UnlockedPages -= cut
	if cut < x.Size() {
		x.To -= int32(cut)
		return
	}
	if t.windows != nil && t.windows.at(n).live {
		t.windows.bury(n)
	}
	t.removeLeaf(n)
	t.children.Delete(childKey(x.Parent, x.Seq.KeyOf(x.From, t.PerNode)))
	parent := x.Parent
	if t.host != nil {
		t.host.dropNode(n, parent)
	}
	x.Seq = Sequence{}
	if x.dead = !t.popFirst(n); !x.dead {
		t.free = append(t.free, n)
	}
	up := t.At(parent)
	if up.children--; up.children == 0 && up.Locks == 0 && parent != Root {
		t.addLeaf(parent)
	}
}
