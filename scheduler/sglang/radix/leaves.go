package radix

import "github.com/replay-llm/replay/internal/heap"

// leaves contains the evictable nodes of a tree as Tie, with their stamps as Key. No two evictable nodes have the
// same stamp.
//
// A node has at most one entry, which stays when the node is walked over or locked or gets a child. Stamps only grow,
// so a stale entry comes to the front early enough to be corrected.
type leaves = heap.Heap[int64, int32, struct{}]

// addLeaf makes n evictable.
func (t *Tree) addLeaf(n int32) {
	x := t.At(n)
	x.leaf = true
	t.LeafPages += x.evictPages()
	if !x.listed {
		x.listed = true
		if t.ranks != nil {
			t.ranks.leaves.Push(t.ranks.rankOf(t, n), x.stamp, n)
			return
		}
		t.leaves.Push(x.stamp, n, struct{}{})
	}
}

// popFirst removes the first entry of leaves if it is the entry of n, and reports whether it did.
func (t *Tree) popFirst(n int32) bool {
	if t.ranks != nil {
		if t.ranks.leaves[0].Value != n {
			return false
		}
		t.ranks.leaves.Pop()
		return true
	}
	if t.leaves[0].Tie != n {
		return false
	}
	t.leaves.Pop()
	return true
}

// removeLeaf makes n not evictable.
func (t *Tree) removeLeaf(n int32) {
	x := t.At(n)
	x.leaf = false
	t.LeafPages -= x.evictPages()
}

// oldestLeaf returns the evictable node with the lowest stamp, or the first node by the eviction policy. oldestLeaf
// returns Root if no node is evictable. The entry of the node is then the first of its heap.
func (t *Tree) oldestLeaf() int32 {
	if t.ranks != nil {
		return t.ranks.first(t)
	}
	for len(t.leaves) > 0 {
		n := t.leaves[0].Tie
		x := t.At(n)
		switch {
		case !x.leaf:
			x.listed = false
			if t.leaves.Pop(); x.dead {
				t.free = append(t.free, n)
			}
		case x.stamp != t.leaves[0].Key:
			t.leaves.SetFirst(x.stamp, n)
		default:
			return n
		}
	}
	return Root
}
