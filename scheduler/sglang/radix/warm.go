package radix

import (
	"cmp"
	"fmt"
	"slices"
)

// ByAge returns the nodes of the tree except the root, sorted by stamp, oldest first. Nodes with equal stamps are in
// descending order of their ends.
func (t *Tree) ByAge() []int32 {
	var all []int32
	for i := range t.All() {
		all = append(all, i)
	}
	slices.SortFunc(all, func(a, b int32) int {
		x, y := t.At(a), t.At(b)
		return cmp.Or(cmp.Compare(x.stamp, y.stamp), -cmp.Compare(x.To, y.To), cmp.Compare(a, b))
	})
	return all
}

// Stretch is the range of pages [From, To) of a sequence.
type Stretch struct {
	Seq      Sequence
	From, To int32
}

// Fill adds a node for each stretch to an empty tree under LRU. The stretches are in order of age, oldest first. Fill
// returns the index of a stretch that does not fit in a tree, and an error.
func (t *Tree) Fill(all []Stretch) (wrong int, err error) {
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(all[a].From, all[b].From) })
	for _, i := range order {
		x := &all[i]
		parent, end := t.find(&x.Seq, x.From)
		switch {
		case end < x.From:
			return i, fmt.Errorf("block %d is cached and not the one before it", x.From)
		case parent < 0:
			return i, fmt.Errorf("block %d is in the middle of a node, the node must be split", x.From)
		case t.child(parent, x.Seq.KeyOf(x.From, t.PerNode)) != Root:
			return i, fmt.Errorf("block %d is cached twice", x.From)
		}
		n := t.createNode(parent, &x.Seq, x.From, x.To)
		t.At(n).stamp = int64(i) + 1
		t.addLeaf(n)
	}
	t.Clock += int64(len(all))
	return 0, nil
}

// find returns how many of the first pages of s are cached, and the node that ends there. The node is -1 if the pages
// end inside a node.
func (t *Tree) find(s *Sequence, pages int32) (node, end int32) {
	for node = Root; end < pages; {
		child := t.child(node, s.KeyOf(end, t.PerNode))
		if child == Root {
			return node, end
		}
		n := t.At(child)
		if end = commonPages(&n.Seq, s, end, min(n.To, pages), t.PerNode); end < n.To {
			return -1, end
		}
		node = child
	}
	return node, end
}
