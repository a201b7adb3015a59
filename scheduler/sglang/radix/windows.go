package radix

import (
	"fmt"

	"github.com/replay-llm/replay/internal/invariant"
)

// Windows is the state of layers with a window in a tree. Live nodes have the tokens of layers with windows; all
// other nodes are tombstones.
//
// Live nodes are in a list, most recently used first, independent of the stamps of the tree. A lock protects the part
// of a path that a window covers.
type Windows struct {
	Unlocked int // pages of live nodes without a lock in Windows

	tree  *Tree
	size  int32 // window size in pages, rounded up
	span  int   // number of pages that a walk marks as recently used: a window and a page
	nodes []windowNode
	freed int // pages freed by evictions since the last TakeFreed
}

// windowNode is the data of Windows about a node. The list is circular and includes the root.
type windowNode struct {
	live       bool // the node has the tokens of layers with a window
	locks      int32
	next, prev int32 // next older and next younger node
}

// AddWindows adds layers with a window to the tree; window and pageTokens are in tokens.
func (t *Tree) AddWindows(window, pageTokens int) *Windows {
	w := &Windows{tree: t, size: int32((window + pageTokens - 1) / pageTokens), nodes: make([]windowNode, 1)}
	w.span = int(w.size) + 1
	t.windows = w
	return w
}

// at returns the data about node n.
func (w *Windows) at(n int32) *windowNode {
	for int(n) >= len(w.nodes) {
		w.nodes = append(w.nodes, windowNode{})
	}
	return &w.nodes[n]
}

// insertAfter inserts n into the list after the node before.
func (w *Windows) insertAfter(before, n int32) {
	next := w.at(before).next
	x := w.at(n)
	x.prev, x.next = before, next
	w.at(before).next, w.at(next).prev = n, n
}

// remove removes n from the list.
func (w *Windows) remove(n int32) {
	x := w.at(n)
	w.nodes[x.prev].next, w.nodes[x.next].prev = x.next, x.prev
}

// Match finds the longest cached prefix of the first pages of s. Match returns the number of usable pages, the node
// that ends after them, and the number of cached pages. Pages are usable up to a node if there is no tombstone within
// a window before the end of this node, or none at all.
func (w *Windows) Match(s *Sequence, pages int32) (usable, best, cached int32) {
	t := w.tree
	now := t.Tick()
	best = Root
	whole, covered := true, int32(0)
	for at := Root; cached < pages; {
		child := t.child(at, s.KeyOf(cached, t.PerNode))
		if child == Root {
			break
		}
		n := t.At(child)
		end := commonPages(&n.Seq, s, cached, min(n.To, pages), t.PerNode)
		part := end < n.To
		if part {
			child = t.split(child, end, now)
		}
		if w.at(child).live {
			covered += end - cached
		} else {
			whole, covered = false, 0
		}
		if whole || covered >= w.size {
			usable, best = end, child
		}
		if at, cached = child, end; part {
			break
		}
	}
	w.touch(best)
	t.StampPath(best, t.Tick())
	return usable, best, cached
}

// touch marks n as most recently used, followed by its ancestors within a window and a page.
func (w *Windows) touch(n int32) {
	last := Root
	for covered := 0; n != Root && covered < w.span; n = w.tree.At(n).Parent {
		if w.at(n).live {
			w.remove(n)
			w.insertAfter(last, n)
			last = n
		}
		covered += w.tree.At(n).Size()
	}
}

// Insert caches the first pages of s. The caller has no tokens of layers with a window before page from, and its lock
// covers the pages before page held. Insert returns how many pages were cached before, and the node that ends there.
// taken is the number of pages of layers with a window that now belong to the tree.
func (w *Windows) Insert(s *Sequence, pages, from, held int32) (before, at, taken int32) {
	t := w.tree
	at = Root
	for before < pages {
		child, end := t.step(at, s, before, pages)
		if child == Root {
			break
		}
		if end > held && !w.at(child).live && from < end {
			w.cutBefore(child, from)
			taken += int32(t.At(child).Size())
			w.revive(child)
		}
		at, before = child, end
	}
	if before < pages {
		at = t.insertLeaf(at, s, before, pages)
		if from < pages {
			w.cutBefore(at, from)
			taken += int32(t.At(at).Size())
			if tail := pages - w.size; tail > t.At(at).From {
				w.revive(t.split(at, tail, t.Tick()))
			}
			w.revive(at)
		}
	}
	w.touch(at)
	return before, at, taken
}

// cutBefore splits n before page at, unless n begins at or after this page. n keeps the second part.
func (w *Windows) cutBefore(n, at int32) {
	if t := w.tree; at > t.At(n).From {
		t.split(n, at, t.Tick())
	}
}

// revive makes a tombstone live.
func (w *Windows) revive(n int32) {
	x := w.at(n)
	x.live = true
	w.insertAfter(Root, n)
	if x.locks == 0 {
		w.Unlocked += w.tree.At(n).Size()
	}
}

// split copies the state of low to up, its new first part.
func (w *Windows) split(up, low int32) {
	x := *w.at(low)
	*w.at(up) = windowNode{live: x.live, locks: x.locks}
	if x.live {
		w.insertAfter(low, up)
	}
}

// Lock locks n and its ancestors within a window, and returns the first locked page.
func (w *Windows) Lock(n int32) (from int32) {
	end := w.tree.At(n).To
	for from = end; n != Root && end-from < w.size; n = w.tree.At(n).Parent {
		x, size := w.at(n), w.tree.At(n).Size()
		if x.locks++; x.locks == 1 && x.live {
			w.Unlocked -= size
		}
		from -= int32(size)
	}
	return from
}

// Unlock reverts one Lock on n and its ancestors down to page from.
func (w *Windows) Unlock(n, from int32) {
	for ; n != Root && w.tree.At(n).To > from; n = w.tree.At(n).Parent {
		x := w.at(n)
		if invariant.Enabled && x.locks == 0 {
			panic(fmt.Sprintf("radix tree: unlock of the window of node %d, which has no lock", n))
		}
		if x.locks--; x.locks == 0 && x.live {
			w.Unlocked += w.tree.At(n).Size()
		}
	}
}

// bury makes the live node n, which has no lock in Windows, a tombstone.
func (w *Windows) bury(n int32) {
	x := w.at(n)
	x.live = false
	w.remove(n)
	size := w.tree.At(n).Size()
	w.Unlocked -= size
	w.freed += size
}

// Evict frees at least want pages of layers with a window, least recently used first. Evict returns how many pages of
// other layers were evicted, because unlocked leaves are evicted as a whole.
func (w *Windows) Evict(want int) (others int) {
	done := w.freed + want
	for n := w.nodes[Root].prev; n != Root && w.freed < done; {
		older := n
		n = w.nodes[n].prev
		switch t := w.tree; {
		case w.nodes[older].locks > 0:
		case t.At(older).leaf:
			size := t.At(older).Size()
			t.prune(older, size)
			others += size
		default:
			w.bury(older)
		}
	}
	return others
}

// TakeFreed returns the number of pages of layers with a window that were freed since its last call.
func (w *Windows) TakeFreed() int {
	n := w.freed
	w.freed = 0
	return n
}

// check panics if the list or the counters do not match the nodes.
func (w *Windows) check() {
	unlocked, live, listed := 0, 0, 0
	for i, n := range w.tree.All() {
		x := w.at(i)
		if x.locks > n.Locks {
			panic(fmt.Sprintf("radix tree: node %d has %d locks, and %d on its window", i, n.Locks, x.locks))
		}
		if x.live {
			live++
			if x.locks == 0 {
				unlocked += n.Size()
			}
		}
	}
	for n := w.nodes[Root].next; n != Root; n = w.nodes[n].next {
		if !w.nodes[n].live {
			panic(fmt.Sprintf("radix tree: node %d is in the list of windows and has none", n))
		}
		listed++
	}
	if unlocked != w.Unlocked || live != listed {
		panic(fmt.Sprintf("radix tree: %d pages of windows unlocked and %d nodes listed, must be %d and %d", w.Unlocked, listed, unlocked, live))
	}
}

// Live returns the number of pages in live nodes.
func (w *Windows) Live() (pages int) {
	for n := w.nodes[Root].next; n != Root; n = w.nodes[n].next {
		pages += w.tree.At(n).Size()
	}
	return pages
}
