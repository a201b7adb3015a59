package radix

import "slices"

// queue has nodes in the order in which they joined it; entries may be void.
type queue struct {
	entries []entry
	next    int64
}

type entry struct {
	node int32
	id   int64
}

// isLeaf reports whether n is in host memory alone, and can go.
func (h *Host) isLeaf(n int32) bool {
	x := &h.nodes[n]
	return x.away && x.copied && x.children == 0 && x.locks == 0
}

// listLeaf enters n among the leaves if it is one.
func (h *Host) listLeaf(n int32) {
	if x := &h.nodes[n]; !x.listed && n != Root && h.isLeaf(n) {
		x.listed = true
		h.leaves.Push(h.tree.At(n).stamp, n, struct{}{})
	}
}

// oldestLeaf returns the leaf with the lowest stamp, Root when there is none.
func (h *Host) oldestLeaf() int32 {
	for len(h.leaves) > 0 {
		n := h.leaves[0].Tie
		switch stamp := h.tree.At(n).stamp; {
		case !h.isLeaf(n):
			h.nodes[n].listed = false
			h.leaves.Pop()
		case stamp != h.leaves[0].Key:
			h.leaves.SetFirst(stamp, n)
		default:
			return n
		}
	}
	return Root
}

// reserve takes pages of host memory, for which it evicts what it can.
func (h *Host) reserve(pages int) bool {
	if short := pages - h.Free; short > 0 && h.evict(short) < short {
		return false
	}
	h.Free -= pages
	return true
}

// evict frees pages of host memory and returns their number: with copies at eviction, first those of nodes that are on
// the device, too; then leaves, oldest first.
func (h *Host) evict(want int) int {
	freed := 0
	if h.Walks == 0 {
		freed = h.evictDoubles(want)
	}
	for freed < want {
		n := h.oldestLeaf()
		if n == Root {
			break
		}
		freed += h.tree.At(n).Size()
		h.drop(n)
	}
	return freed
}

// drop takes a node out of the tree that is in host memory alone.
func (h *Host) drop(n int32) {
	parent := h.tree.At(n).Parent
	h.Free += h.tree.At(n).Size()
	h.tree.Content++
	x := h.tree.At(n)
	h.tree.children.Delete(childKey(parent, x.Seq.KeyOf(x.From, h.tree.PerNode)))
	h.dropNode(n, parent)
	x.Seq = Sequence{}
	h.tree.free = append(h.tree.free, n)
	h.listLeaf(parent)
}

// dropNode forgets a node.
func (h *Host) dropNode(n, parent int32) {
	h.nodes[n] = hostNode{listed: h.nodes[n].listed}
	h.nodes[parent].children--
}

// noteDouble enters n in the queue of nodes that are on the device and in host memory, or
// takes it out.
func (h *Host) noteDouble(n int32) {
	if h.Walks > 0 {
		return
	}
	switch x := &h.nodes[n]; {
	case x.away || !x.copied || x.loading != Root:
		x.doubly = 0
	case x.doubly == 0:
		h.doubly.next++
		x.doubly = h.doubly.next
		h.doubly.entries = append(h.doubly.entries, entry{n, x.doubly})
	}
}

// evictDoubles frees the copies of nodes that are on the device, those last that it would
// evict next.
func (h *Host) evictDoubles(want int) int {
	q, freed := &h.doubly, 0
	for _, spare := range [...]bool{true, false} {
		for _, e := range q.entries {
			x := &h.nodes[e.node]
			if freed >= want {
				break
			}
			switch {
			case x.doubly != e.id:
			case x.away:
				x.doubly = 0
			case spare && h.tree.At(e.node).leaf || x.loading != Root || x.locks > 0:
			default:
				x.copied, x.doubly = false, 0
				h.Free += h.tree.At(e.node).Size()
				freed += h.tree.At(e.node).Size()
			}
		}
	}
	q.entries = slices.DeleteFunc(q.entries, func(e entry) bool { return h.nodes[e.node].doubly != e.id })
	return freed
}

// evictLeaf takes n, the oldest leaf of the device, off it. It stays in host memory if
// it has a copy, or gets one now.
func (h *Host) evictLeaf(n int32) {
	t := h.tree
	size := t.At(n).Size()
	if !h.nodes[n].copied && h.Walks == 0 {
		if h.reserve(size) {
			h.nodes[n].copied = true
			h.noteDouble(n)
			h.Copier.CopyNow(size)
		} else {
			h.dropBelow(n)
		}
	}
	if !h.nodes[n].copied {
		t.prune(n, size)
		return
	}
	if t.Watch != nil {
		t.Watch.Removed(t, n, t.At(n).From)
	}
	h.leaveDevice(n)
	h.listLeaf(n)
}

// leaveDevice takes n, the oldest leaf of the device, off it.
func (h *Host) leaveDevice(n int32) {
	t := h.tree
	x := t.At(n)
	h.nodes[n].away = true
	t.Pages -= x.Size()
	t.UnlockedPages -= x.Size()
	t.removeLeaf(n)
	t.leaves.Pop()
	x.listed = false
	up := t.At(x.Parent)
	if up.children--; up.children == 0 && up.Locks == 0 && x.Parent != Root {
		t.addLeaf(x.Parent)
	}
}

// dropBelow takes all nodes below n out of the tree; they are in host memory alone.
func (h *Host) dropBelow(n int32) {
	if h.nodes[n].children == 0 {
		return
	}
	for i := int32(h.tree.len) - 1; i > Root; i-- {
		if h.nodes[i].away && h.isBelow(i, n) {
			h.dropBelow(i)
			h.drop(i)
		}
	}
}

// isBelow reports whether i is below n.
func (h *Host) isBelow(i, n int32) bool {
	for at := h.tree.At(i).Parent; at != Root; at = h.tree.At(at).Parent {
		if at == n {
			return true
		}
	}
	return false
}
