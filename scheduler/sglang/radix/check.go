package radix

import (
	"fmt"
	"iter"
)

// All returns the nodes of the tree except the root.
func (t *Tree) All() iter.Seq2[int32, *Node] {
	dead := make(map[int32]bool)
	for _, n := range t.free {
		dead[n] = true
	}
	return func(yield func(int32, *Node) bool) {
		for i := Root + 1; i < int32(t.len); i++ {
			if !dead[i] && !t.At(i).dead && !yield(i, t.At(i)) {
				return
			}
		}
	}
}

// Check panics if the counters of the tree do not match its nodes.
func (t *Tree) Check() {
	pages, unlocked, leaf := 0, 0, 0
	if t.host != nil {
		t.host.check()
	}
	for i, n := range t.All() {
		if n.From >= n.To || t.At(n.Parent).To != n.From && n.Parent != Root {
			panic(fmt.Sprintf("radix tree: node %d holds pages %d to %d below one that ends at %d", i, n.From, n.To, t.At(n.Parent).To))
		}
		if n.Parent != Root && t.At(n.Parent).Locks < n.Locks {
			panic(fmt.Sprintf("radix tree: node %d has %d locks, its parent %d", i, n.Locks, t.At(n.Parent).Locks))
		}
		if t.IsAway(i) {
			continue
		}
		pages += n.Size()
		if n.Locks == 0 {
			unlocked += n.Size()
		}
		isLeaf := n.Locks == 0 && n.children == 0
		if isLeaf != n.leaf {
			panic(fmt.Sprintf("radix tree: node %d with %d locks and %d children is a leaf: %v", i, n.Locks, n.children, !isLeaf))
		}
		if isLeaf {
			leaf += n.evictPages()
		}
	}
	if pages != t.Pages || unlocked != t.UnlockedPages || leaf != t.LeafPages {
		panic(fmt.Sprintf("radix tree: %d pages, %d unlocked, %d in leaves, must be %d, %d, %d",
			t.Pages, t.UnlockedPages, t.LeafPages, pages, unlocked, leaf))
	}
	if t.windows != nil {
		t.windows.check()
	}
}

// check panics if the counters of host memory do not match the nodes of the tree.
func (h *Host) check() {
	held := 0
	for i, n := range h.tree.All() {
		x := &h.nodes[i]
		if x.copied {
			held += n.Size()
		}
		switch up := &h.nodes[n.Parent]; {
		case x.away && (!x.copied || n.Locks > 0 || n.leaf):
			panic(fmt.Sprintf("host memory: node %d is not on the device: copied %v, %d locks, a leaf %v", i, x.copied, n.Locks, n.leaf))
		case up.away && !x.away:
			panic(fmt.Sprintf("host memory: node %d is on the device, its parent %d is not", i, n.Parent))
		case h.isLeaf(i) && !x.listed:
			panic(fmt.Sprintf("host memory: leaf %d is not listed", i))
		}
	}
	if held+h.Free+h.Fetching != h.Pages || h.Free < 0 || h.Fetching < 0 {
		panic(fmt.Sprintf("host memory: %d pages free + %d held != %d in all", h.Free, held, h.Pages))
	}
}
