package radix

// StoredPage names a page in storage, with all before it.
type StoredPage struct {
	Key Key
	At  int32
}

// StoredPageOf returns the name of page i of s.
func (t *Tree) StoredPageOf(s *Sequence, i int32) StoredPage {
	return StoredPage{s.KeyOf(i, t.PerNode), i}
}

// IsCopied reports whether n has a copy in host memory, which may be in progress. The root counts as copied.
func (h *Host) IsCopied(n int32) bool { return n == Root || h.nodes[n].copied }

// ReserveFetch reserves pages of host memory for blocks from storage, evicts for them, and returns their number; none
// if there were fewer than least.
func (h *Host) ReserveFetch(pages, least int) int {
	if pages > h.Free {
		h.evict(pages)
	}
	if pages = min(pages, h.Free); pages < least {
		return 0
	}
	h.Free -= pages
	h.Fetching += pages
	return pages
}

// ReleaseFetch releases what was taken for pages that did not come.
func (h *Host) ReleaseFetch(pages int) {
	h.Free += pages
	h.Fetching -= pages
}

// Fill enters pages [from, to) of s, which came from storage, below node at. What has a copy already is
// released.
func (h *Host) Fill(at int32, s *Sequence, from, to int32) {
	t := h.tree
	t.stamp(at, t.Tick())
	h.Fetching -= int(to - from)
	for from < to {
		child, end := t.step(at, s, from, to)
		if child == Root {
			break
		}
		if h.nodes[child].copied {
			h.Free += int(end - from)
		}
		h.nodes[child].copied = true
		from, at = end, child
	}
	if from < to {
		h.createAway(at, s, from, to)
	}
}

// createAway adds a node in host memory alone.
func (h *Host) createAway(parent int32, s *Sequence, from, to int32) {
	t := h.tree
	n := t.newNode()
	*t.At(n) = Node{Seq: *s, From: from, To: to, Parent: parent, stamp: t.Tick()}
	h.addNode(n, parent)
	h.nodes[n].copied, h.nodes[n].away = true, true
	t.setChild(parent, s.KeyOf(from, t.PerNode), n)
	t.Content++
	h.listLeaf(n)
}
