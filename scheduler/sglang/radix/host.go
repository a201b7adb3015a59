package radix

// Host is memory behind the device that a tree's pages live on: copies of whole nodes.
//
// What the device evicts stays in the tree while it has a copy. On every path come first
// the nodes on the device, then those in host memory alone.
type Host struct {
	Pages int // of host memory
	Free  int // of them
	// Fetching is the pages taken for what storage sends, or sent in vain.
	Fetching int
	// Walks is the number of insertions over a node after which it is copied to the host;
	// 0: when the device evicts it.
	Walks  int32
	Copier Copier

	tree   *Tree
	nodes  []hostNode // by node
	leaves leaves     // nodes in host memory alone that nothing hangs on, by stamp
	doubly queue      // nodes on the device and in host memory, while copies are made at eviction
}

// hostNode is the part of a node in host memory.
type hostNode struct {
	copied   bool  // it has a copy, which may be in progress
	away     bool  // it is not on the device
	listed   bool  // it has an entry in the heap of leaves, or the node had that was here before
	loading  int32 // the node it is loaded with, while that is in progress
	children int32 // in the tree, on the device or not
	locks    int32
	walks    int32
	doubly   int64 // its entry in the queue, 0: none
}

// Copier makes copies to the host.
type Copier interface {
	// Copy begins to copy node n, which is locked until EndCopy.
	Copy(n int32)
	// CopyNow copies pages that are being evicted; the evicting request waits for it.
	CopyNow(pages int)
}

// AttachHost puts host memory behind the tree, which is empty.
func (t *Tree) AttachHost(h *Host) {
	h.tree, h.Free, t.host = t, h.Pages, h
	h.nodes = append(h.nodes, hostNode{})
}

// addNode enters a new node below a parent.
func (h *Host) addNode(n, parent int32) {
	for int(n) >= len(h.nodes) {
		h.nodes = append(h.nodes, hostNode{})
	}
	h.nodes[n] = hostNode{listed: h.nodes[n].listed}
	h.nodes[parent].children++
}

// splitNode enters the first part of a node that was cut in two, and reports whether they are in
// host memory alone.
func (h *Host) splitNode(up, low int32) bool {
	for int(up) >= len(h.nodes) {
		h.nodes = append(h.nodes, hostNode{})
	}
	x := h.nodes[low]
	h.nodes[up] = hostNode{
		copied: x.copied, away: x.away, loading: x.loading,
		children: 1, walks: x.walks, listed: h.nodes[up].listed,
	}
	if x.away {
		h.tree.At(up).children = 0
	}
	h.noteDouble(up)
	return x.away
}

// IsAway reports whether n is in host memory alone.
func (t *Tree) IsAway(n int32) bool { return t.host != nil && t.host.nodes[n].away }

// Tiers is what a lookup finds.
type Tiers struct {
	Device, All         int32 // pages
	DeviceNode, AllNode int32 // where they end
}

// MatchTiers does what Match does in a tree with host memory behind it.
func (t *Tree) MatchTiers(s *Sequence, pages int32) (f Tiers) {
	now := t.Tick()
	for f.All < pages {
		child := t.child(f.AllNode, s.KeyOf(f.All, t.PerNode))
		if child == Root {
			break
		}
		n := t.At(child)
		end := commonPages(&n.Seq, s, f.All, min(n.To, pages), t.PerNode)
		cut := end < n.To
		if cut {
			child = t.split(child, end, now)
		} else {
			t.stamp(child, now)
		}
		f.All, f.AllNode = end, child
		if !t.host.nodes[child].away {
			f.Device, f.DeviceNode = end, child
		}
		if cut {
			break
		}
	}
	return f
}

// InsertTiers does what Insert does in a tree with host memory behind it. What it finds in
// host memory alone comes to the device with the pages of s. Walks over the first counted
// pages, which the same request has put there, do not count. It returns how many pages
// were cached before, how many of them on the device, and the node that ends there.
func (t *Tree) InsertTiers(s *Sequence, pages, counted int32) (cached, onDevice, at int32) {
	h := t.host
	for cached < pages {
		child, end := t.step(at, s, cached, pages)
		if child == Root {
			break
		}
		if h.nodes[child].away {
			h.bringBack(child)
			h.noteDouble(child)
		} else {
			onDevice = end
		}
		cached, at = end, child
		if end > counted {
			h.countWalk(child)
		}
	}
	if cached < pages {
		at = t.insertLeaf(at, s, cached, pages)
		if pages > counted {
			h.countWalk(at)
		}
	}
	return cached, onDevice, at
}

// bringBack puts a node that is in host memory alone on the device.
func (h *Host) bringBack(n int32) {
	t := h.tree
	x := t.At(n)
	h.nodes[n].away = false
	t.Pages += x.Size()
	t.UnlockedPages += x.Size()
	t.Content++
	up := t.At(x.Parent)
	if up.leaf {
		t.removeLeaf(x.Parent)
	}
	up.children++
	t.addLeaf(n)
	if t.Watch != nil {
		t.Watch.Stored(t, n)
	}
}

// countWalk counts an insertion over n, which is on the device, and copies it to the host when there
// were enough.
func (h *Host) countWalk(n int32) {
	if h.Walks == 0 {
		return
	}
	x := &h.nodes[n]
	if x.walks++; !x.copied && x.walks >= h.Walks {
		h.copyPath(n)
	}
}

// copyPath copies n and its ancestors to the host, from the first one without a copy on, as far as there is room.
func (h *Host) copyPath(n int32) bool {
	if up := h.tree.At(n).Parent; up != Root && !h.nodes[up].copied && !h.copyPath(up) {
		return false
	}
	if !h.reserve(h.tree.At(n).Size()) {
		return false
	}
	h.nodes[n].copied = true
	h.tree.Lock(n)
	h.Copier.Copy(n)
	return true
}

// EndCopy releases the lock of n after its copy.
func (h *Host) EndCopy(n int32) { h.tree.Unlock(n) }

// BeginLoad brings n, which ends in host memory alone, to the device with all before it, and locks it
// until EndLoad. There must be room.
func (h *Host) BeginLoad(n int32) {
	for at := n; h.nodes[at].away; at = h.tree.At(at).Parent {
		h.nodes[at].loading = n
	}
	h.bringBackPath(n)
	h.tree.Lock(n)
}

// bringBackPath brings n and all before it to the device, the first of them first.
func (h *Host) bringBackPath(n int32) {
	if n != Root && h.nodes[n].away {
		h.bringBackPath(h.tree.At(n).Parent)
		h.bringBack(n)
	}
}

// EndLoad releases the locks of n, which has been loaded.
func (h *Host) EndLoad(n int32) {
	h.tree.Unlock(n)
	h.Unpin(n)
	for at := n; at != Root; at = h.tree.At(at).Parent {
		if h.nodes[at].loading == n {
			h.nodes[at].loading = Root
			h.noteDouble(at)
		}
	}
}

// Pin keeps n and its ancestors in host memory.
func (h *Host) Pin(n int32) { h.nodes[n].locks++ }

// Unpin takes that back.
func (h *Host) Unpin(n int32) {
	h.nodes[n].locks--
	h.listLeaf(n)
}
