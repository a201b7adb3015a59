package radix

// Host is host memory behind the device memory of a tree. Host stores copies of whole nodes.
//
// A node with a copy stays in the tree when it is evicted from the device. On every path, nodes on the device come
// before nodes that are only in host memory.
type Host struct {
	Pages int // capacity in pages
	Free  int // free pages
	// Fetching is the number of pages reserved for data from storage, including data that is no longer wanted.
	Fetching int
	// Walks is the number of insertions through a node after which it is copied to the host; 0: it is copied when the
	// device evicts it.
	Walks  int32
	Copier Copier

	tree   *Tree
	nodes  []hostNode // data of each node
	leaves leaves     // evictable nodes that are only in host memory, by stamp
	doubly queue      // nodes on the device and in host memory, only if copies are made at eviction
}

// hostNode is the data about a node for host memory.
type hostNode struct {
	copied   bool  // the node has a copy, which may be in progress
	away     bool  // the node is not on the device
	listed   bool  // the node, or an earlier node with the same index, has an entry in the heap of leaves
	loading  int32 // the last node of the load in progress; Root: none
	children int32 // number of children in the tree, on the device or not
	locks    int32
	walks    int32
	doubly   int64 // id of the node's entry in the queue doubly; 0: none
}

// Copier makes copies to the host.
type Copier interface {
	// Copy starts to copy node n, which is locked until EndCopy.
	Copy(n int32)
	// CopyNow copies pages that are being evicted. The evicting request waits for the copy.
	CopyNow(pages int)
}

// AttachHost adds host memory to an empty tree.
func (t *Tree) AttachHost(h *Host) {
	h.tree, h.Free, t.host = t, h.Pages, h
	h.nodes = append(h.nodes, hostNode{})
}

// addNode initializes the data of a new node with the given parent.
func (h *Host) addNode(n, parent int32) {
	for int(n) >= len(h.nodes) {
		h.nodes = append(h.nodes, hostNode{})
	}
	h.nodes[n] = hostNode{listed: h.nodes[n].listed}
	h.nodes[parent].children++
}

// splitNode initializes the data of up, the first part of the split node low. splitNode reports whether both parts
// are only in host memory.
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

// IsAway reports whether n is only in host memory.
func (t *Tree) IsAway(n int32) bool { return t.host != nil && t.host.nodes[n].away }

// Tiers is the result of a lookup with host memory.
type Tiers struct {
	Device, All         int32 // cached pages on the device, and in total
	DeviceNode, AllNode int32 // last nodes of the cached pages
}

// MatchTiers is Match for a tree with host memory.
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

// InsertTiers is Insert for a tree with host memory. Found nodes that are only in host memory become resident on the
// device with the pages of s. Insertions through the first counted pages do not count for Walks, because the same
// request has inserted them before. InsertTiers returns how many pages were cached before, how many of them were on
// the device, and the node at the end of the inserted pages.
func (t *Tree) InsertTiers(s *Sequence, pages, counted int32) (cached, onDevice, at int32) {
	h := t.host
	for cached < pages {
		child, end := t.step(at, s, cached, pages)
		if child == Root {
			break
		}
		if h.nodes[child].away {
			h.loadBack(child)
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

// loadBack makes a node resident on the device that was only in host memory.
func (h *Host) loadBack(n int32) {
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

// countWalk counts an insertion through n, which is on the device, and copies n to the host after Walks insertions.
func (h *Host) countWalk(n int32) {
	if h.Walks == 0 {
		return
	}
	x := &h.nodes[n]
	if x.walks++; !x.copied && x.walks >= h.Walks {
		h.copyPath(n)
	}
}

// copyPath copies n and its ancestors without a copy to the host, the first ancestor first, as far as there is room.
// copyPath reports whether n is copied.
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

// BeginLoad makes the path to n resident on the device and locks n until EndLoad. The node n is only in host memory.
// The device must have room.
func (h *Host) BeginLoad(n int32) {
	for at := n; h.nodes[at].away; at = h.tree.At(at).Parent {
		h.nodes[at].loading = n
	}
	h.loadBackPath(n)
	h.tree.Lock(n)
}

// loadBackPath makes n and its ancestors resident on the device, starting with the first ancestor.
func (h *Host) loadBackPath(n int32) {
	if n != Root && h.nodes[n].away {
		h.loadBackPath(h.tree.At(n).Parent)
		h.loadBack(n)
	}
}

// EndLoad releases the locks of n after its load.
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

// Pin protects n and its ancestors from eviction from host memory.
func (h *Host) Pin(n int32) { h.nodes[n].locks++ }

// Unpin reverts one Pin.
func (h *Host) Unpin(n int32) {
	h.nodes[n].locks--
	h.listLeaf(n)
}
