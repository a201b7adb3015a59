package radix

import "github.com/replay-llm/replay/internal/heap"

// leaves has the evictable nodes of a tree, the Tie of an entry, by a stamp, its
// Key. No two evictable nodes have the same stamp.
//
// A node has one entry at most, which stays when the node is walked over or
// locked or has a child: stamps only grow, so entries come up in time to be put
// right.
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

// popFirst takes out the first entry of the leaves if it is that of n, and reports whether it was.
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

// oldestLeaf returns the evictable node with the lowest stamp. Its entry is
// then the first of t.leaves, or by another policy the first of its leaves; Root when nothing is evictable.
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
