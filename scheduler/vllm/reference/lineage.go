package reference

import "github.com/replay-llm/replay/internal/heap"

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
	// leaves has blocks by the stamp they had when they were leaves. Entries that
	// are no longer true stay until they come up.
	leaves heap.Heap[int64, blockID, struct{}]
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
		l.leaves.Push(p.stamp, b, struct{}{})
	}
}

// evict takes out the leaf that came first; noBlock when nothing is held.
func (l *lineage) evict() blockID {
	for len(l.leaves) > 0 {
		f := l.leaves.Pop()
		stands := l.stands(f)
		l.unlist(f)
		if stands {
			l.remove(f.Tie)
			return f.Tie
		}
	}
	return noBlock
}

// stands says that an entry of leaves still speaks of a leaf.
func (l *lineage) stands(f leaf) bool {
	p := &l.places[f.Tie]
	return p.held && p.children == 0 && p.stamp == f.Key
}

// unlist notes that f is no longer in leaves.
func (l *lineage) unlist(f leaf) {
	if p := &l.places[f.Tie]; p.listed == f.Key+1 {
		p.listed = 0
	}
}

// prune drops entries that no longer speak of a leaf.
func (l *lineage) prune() {
	l.leaves.Filter(func(f leaf) bool {
		if !l.stands(f) {
			l.unlist(f)
			return false
		}
		return true
	})
}

// leaf says that a block, its Tie, was a leaf when it had the stamp that is its
// Key.
type leaf = heap.Item[int64, blockID, struct{}]
