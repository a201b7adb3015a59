package radix

import "slices"

// queue contains nodes in the order in which they joined it. Some entries may be void.
type queue struct {
	entries []entry
	next    int64
}

type entry struct {
	node int32
	id   int64
}

// isLeaf reports whether n is only in host memory and can be evicted.
func (h *Host) isLeaf(n int32) bool {
	x := &h.nodes[n]
	return x.away && x.copied && x.children == 0 && x.locks == 0
}

// listLeaf adds n to leaves if it is a leaf without an entry.
func (h *Host) listLeaf(n int32) {
	if x := &h.nodes[n]; !x.listed && n != Root && h.isLeaf(n) {
		x.listed = true
		h.leaves.Push(h.tree.At(n).stamp, n, struct{}{})
	}
}

// oldestLeaf returns the leaf with the lowest stamp, or Root if there is none.
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

// reserve allocates pages of host memory and evicts other pages if necessary. reserve returns false if it cannot free
// enough pages.
func (h *Host) reserve(pages int) bool {
	if short := pages - h.Free; short > 0 && h.evict(short) < short {
		return false
	}
	h.Free -= pages
	return true
}

// evict frees pages of host memory and returns their number. If copies are made at eviction, evict first frees copies
// of nodes that are also on the device. Then evict frees leaves, oldest first.
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

// drop removes a node from the tree that is only in host memory.
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

// dropNode clears the data of a node.
func (h *Host) dropNode(n, parent int32) {
	h.nodes[n] = hostNode{listed: h.nodes[n].listed}
	h.nodes[parent].children--
}

// noteDouble adds n to the queue doubly if it is on the device and in host memory. If n is only in one of the two
// memories, noteDouble voids the entry of n.
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

// evictDoubles frees copies of nodes that are on the device. Copies of nodes that the device would evict next are
// freed last.
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

// evictLeaf evicts n, the oldest leaf of the device. The node stays in host memory if it has a copy or can be copied
// now.
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

// leaveDevice updates the tree after n, the oldest leaf of the device, has left the device.
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

// dropBelow removes all descendants of n from the tree. The descendants are only in host memory.
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

// isBelow reports whether i is a descendant of n.
func (h *Host) isBelow(i, n int32) bool {
	for at := h.tree.At(i).Parent; at != Root; at = h.tree.At(at).Parent {
		if at == n {
			return true
		}
	}
	return false
}
