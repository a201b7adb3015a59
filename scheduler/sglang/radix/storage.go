package radix

// StoredPage identifies a page in storage together with its prefix.
type StoredPage struct {
	Key Key
	At  int32
}

// StoredPageOf returns the identity of page i of s in storage.
func (t *Tree) StoredPageOf(s *Sequence, i int32) StoredPage {
	return StoredPage{s.KeyOf(i, t.PerNode), i}
}

// IsCopied reports whether n has a copy in host memory, which may be in progress. The root counts as copied.
func (h *Host) IsCopied(n int32) bool { return n == Root || h.nodes[n].copied }

// ReserveFetch reserves pages of host memory for data from storage, and evicts other pages if necessary. ReserveFetch
// returns the number of reserved pages, or 0 if there are fewer than least.
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

// ReleaseFetch releases reserved pages for which no data arrived.
func (h *Host) ReleaseFetch(pages int) {
	h.Free += pages
	h.Fetching -= pages
}

// Fill adds pages [from, to) of s, which came from storage, below node at. Reserved pages are released if the tree
// has a copy already.
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

// createAway adds a node that is only in host memory.
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
