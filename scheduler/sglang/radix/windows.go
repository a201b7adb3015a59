package radix

import (
	"fmt"

	"github.com/replay-llm/replay/internal/invariant"
)

// Windows is the state of layers with a window in a tree: the nodes that have the tokens of these layers, too. The rest
// are tombstones to them.
//
// Nodes with such tokens are in a list, the latest used first, apart from the stamps of the
// tree. Locks hold what a window covers of a path.
type Windows struct {
	Unlocked int // pages of nodes that have these tokens and no lock here

	tree  *Tree
	size  int32 // pages that cover a window
	span  int   // pages, in tokens a window and a page, that a walk makes young
	nodes []windowNode
	freed int // pages that evictions gave back since TakeFreed
}

// windowNode is what Windows knows of a node. The list runs through the root.
type windowNode struct {
	live       bool // it has the tokens of layers with windows
	locks      int32
	next, prev int32 // towards older and younger ones
}

// AddWindows gives the tree the layers with a window of n tokens, a page having
// pageTokens.
func (t *Tree) AddWindows(window, pageTokens int) *Windows {
	w := &Windows{tree: t, size: int32((window + pageTokens - 1) / pageTokens), nodes: make([]windowNode, 1)}
	w.span = int(w.size) + 1
	t.windows = w
	return w
}

// at returns what w knows of node n.
func (w *Windows) at(n int32) *windowNode {
	for int(n) >= len(w.nodes) {
		w.nodes = append(w.nodes, windowNode{})
	}
	return &w.nodes[n]
}

// insertAfter puts n into the list, behind the one that is before.
func (w *Windows) insertAfter(before, n int32) {
	next := w.at(before).next
	x := w.at(n)
	x.prev, x.next = before, next
	w.at(before).next, w.at(next).prev = n, n
}

// remove takes n out of the list.
func (w *Windows) remove(n int32) {
	x := w.at(n)
	w.nodes[x.prev].next, w.nodes[x.next].prev = x.next, x.prev
}

// Match walks down the first pages pages of s, as far as they are cached, and returns the
// pages that can be used, the node that ends there, and the pages that are cached. It can
// use those up to a node before which a window, or all from the start, has no tombstone.
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

// touch makes n young, and those before it that a window and a page cover: n the youngest.
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

// Insert caches the first pages pages of s, of which the layers with windows lack those before
// page from, and the caller's lock holds those before page held. It returns how many were
// cached before, the node that ends there, and how many pages of layers with windows the tree
// has taken.
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

// cutBefore splits n before page at, unless n begins there or later; n keeps the second part.
func (w *Windows) cutBefore(n, at int32) {
	if t := w.tree; at > t.At(n).From {
		t.split(n, at, t.Tick())
	}
}

// revive gives a tombstone the tokens of layers with windows.
func (w *Windows) revive(n int32) {
	x := w.at(n)
	x.live = true
	w.insertAfter(Root, n)
	if x.locks == 0 {
		w.Unlocked += w.tree.At(n).Size()
	}
}

// split gives the first part of low, which is up now, what low has.
func (w *Windows) split(up, low int32) {
	x := *w.at(low)
	*w.at(up) = windowNode{live: x.live, locks: x.locks}
	if x.live {
		w.insertAfter(low, up)
	}
}

// Lock locks n and those before it that a window covers, and returns the first page of them.
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

// Unlock takes a lock back that Lock put on n and those before it down to page from.
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

// bury makes n, which is live and has no lock here, a tombstone.
func (w *Windows) bury(n int32) {
	x := w.at(n)
	x.live = false
	w.remove(n)
	size := w.tree.At(n).Size()
	w.Unlocked -= size
	w.freed += size
}

// Evict frees at least want pages of layers with windows, the oldest first, and returns how
// many pages of other layers were evicted with them: unlocked leaves are evicted as a whole.
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

// TakeFreed returns how many pages of layers with windows were evicted since it was last
// called.
func (w *Windows) TakeFreed() int {
	n := w.freed
	w.freed = 0
	return n
}

// check holds the list and the sums against the nodes.
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

// Live returns the pages of the tree that layers with windows have.
func (w *Windows) Live() (pages int) {
	for n := w.nodes[Root].next; n != Root; n = w.nodes[n].next {
		pages += w.tree.At(n).Size()
	}
	return pages
}
