package reference

// lineage holds cached blocks that nobody uses and evicts, of those without a
// cached descendant, the one that came first (vllm-scheduler.md 5.4).
//
// The list of lru.go does not do here: a swap-in gives a prefix back first
// block first, so that a parent can be older than its children.
type lineage struct {
	catalog *catalog
	tick    int64 // stamp of the next to come
	len     int   // blocks held
	places  []place
	leaves  leaves
}

// place is where a block stands in a lineage. A place that holds no block but
// has children is a ghost.
type place struct {
	stamp    int64
	listed   int64 // 1 + the stamp its newest entry in leaves has; 0: none
	children int32 // places linked below it
	held     bool
	linked   bool // counted among its parent's children
}

// leafSlack is the number of entries of leaves that need not be worth keeping.
const leafSlack = 64

func (l *lineage) grow(b blockID) {
	for int(b) >= len(l.places) {
		l.places = append(l.places, place{})
	}
}

// insert makes b the youngest.
func (l *lineage) insert(b blockID) {
	l.grow(b)
	p := &l.places[b]
	p.held, p.stamp = true, l.tick
	l.tick++
	l.len++
	if p.children == 0 {
		l.list(b)
	}
	if parent := l.catalog.blocks[b].parent; parent != noBlock && !p.linked {
		p.linked = true
		l.grow(parent)
		l.places[parent].children++
	}
	if len(l.leaves) > leafSlack+4*l.len {
		l.prune()
	}
}

// remove takes b out, and the ghosts that led to nothing else.
func (l *lineage) remove(b blockID) {
	p := &l.places[b]
	p.held = false
	l.len--
	for !p.held && p.children == 0 && p.linked {
		p.linked = false
		b = l.catalog.blocks[b].parent
		p = &l.places[b]
		p.children--
		if p.held && p.children == 0 {
			l.list(b)
		}
	}
}

// list enters b, a leaf, in leaves, unless it stands there still.
func (l *lineage) list(b blockID) {
	p := &l.places[b]
	if p.listed != p.stamp+1 {
		p.listed = p.stamp + 1
		l.leaves.push(leaf{p.stamp, b})
	}
}

// evict takes out the leaf that came first; noBlock when nothing is held.
func (l *lineage) evict() blockID {
	for len(l.leaves) > 0 {
		f := l.leaves[0]
		l.leaves.pop()
		stands := l.stands(f)
		l.unlist(f)
		if stands {
			l.remove(f.block)
			return f.block
		}
	}
	return noBlock
}

// stands says that an entry of leaves still speaks of a leaf.
func (l *lineage) stands(f leaf) bool {
	p := &l.places[f.block]
	return p.held && p.children == 0 && p.stamp == f.stamp
}

// unlist notes that f is no longer in leaves.
func (l *lineage) unlist(f leaf) {
	if p := &l.places[f.block]; p.listed == f.stamp+1 {
		p.listed = 0
	}
}

// prune drops entries that no longer speak of a leaf.
func (l *lineage) prune() {
	kept := l.leaves[:0]
	for _, f := range l.leaves {
		if l.stands(f) {
			kept = append(kept, f)
		} else {
			l.unlist(f)
		}
	}
	l.leaves = kept
	for i := len(kept)/2 - 1; i >= 0; i-- {
		l.leaves.down(i)
	}
}

// leaf says that a block of that stamp was a leaf when the entry was made.
type leaf struct {
	stamp int64
	block blockID
}

// leaves is a binary heap by stamp. Entries that are no longer true stay until
// they come up.
type leaves []leaf

func (h *leaves) push(f leaf) {
	*h = append(*h, f)
	a := *h
	i := len(a) - 1
	for i > 0 && a[(i-1)/2].stamp > f.stamp {
		a[i] = a[(i-1)/2]
		i = (i - 1) / 2
	}
	a[i] = f
}

func (h *leaves) pop() {
	a := *h
	n := len(a) - 1
	a[0] = a[n]
	*h = a[:n]
	h.down(0)
}

// down sinks entry i to its place.
func (h leaves) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h[child+1].stamp < h[child].stamp {
			child++
		}
		if h[i].stamp <= h[child].stamp {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
