package sglang

// leaves is the set of evictable nodes of a tree, a heap by stamp. A node knows
// its place in it. No two nodes of the set have the same stamp.
type leaves struct {
	heap []int32
}

const notLeaf = -1 // the place of a node outside the set

func (t *tree) addLeaf(n int32) {
	t.leaves.heap = append(t.leaves.heap, n)
	t.at(n).place = int32(len(t.leaves.heap) - 1)
	t.leafUp(len(t.leaves.heap) - 1)
	t.leafPages += t.at(n).evictPages()
}

func (t *tree) removeLeaf(n int32) {
	h := t.leaves.heap
	i, last := int(t.at(n).place), len(h)-1
	t.leafPages -= t.at(n).evictPages()
	t.at(n).place = notLeaf
	moved := h[last]
	t.leaves.heap = h[:last]
	if i == last {
		return
	}
	h[i] = moved
	t.at(moved).place = int32(i)
	t.leafUp(i)
	t.leafDown(int(t.at(moved).place))
}

func (t *tree) leafUp(i int) {
	h := t.leaves.heap
	n := h[i]
	stamp := t.at(n).stamp
	for i > 0 {
		up := (i - 1) / 2
		if t.at(h[up]).stamp <= stamp {
			break
		}
		h[i] = h[up]
		t.at(h[i]).place = int32(i)
		i = up
	}
	h[i] = n
	t.at(n).place = int32(i)
}

func (t *tree) leafDown(i int) {
	h := t.leaves.heap
	n := h[i]
	stamp := t.at(n).stamp
	for {
		down := 2*i + 1
		if down >= len(h) {
			break
		}
		if down+1 < len(h) && t.at(h[down+1]).stamp < t.at(h[down]).stamp {
			down++
		}
		if t.at(h[down]).stamp >= stamp {
			break
		}
		h[i] = h[down]
		t.at(h[i]).place = int32(i)
		i = down
	}
	h[i] = n
	t.at(n).place = int32(i)
}
