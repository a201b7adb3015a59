package blocks

import (
	"fmt"

	"github.com/replay-llm/replay/internal/heap"
)

// Lineage holds unused cached blocks and evicts, of those without a
// cached descendant, the one that came first.
//
// A list by age does not do here: a fetch gives a prefix back first block
// first, so that a parent can be older than its children.
type Lineage struct {
	catalog *Catalog
	tick    int64 // stamp of the next to come
	len     int   // blocks held
	places  []place
	// leaves has blocks by the stamp they had when they were leaves. Entries
	// that are no longer true stay until they come up.
	leaves heap.Heap[int64, ID, struct{}]
}

// place is where a block stands in a Lineage. A place that holds no block but
// has children is a ghost.
type place struct {
	stamp    int64
	listed   int64 // 1 + the stamp its newest entry in leaves has; 0: none
	children int32 // places linked below it
	held     bool
	linked   bool // counted among its parent's children
}

// NewLineage returns an empty lineage of blocks of a catalog.
func NewLineage(k *Catalog) Lineage { return Lineage{catalog: k} }

// Len returns the number of blocks held.
func (l *Lineage) Len() int { return l.len }

// leafSlack is the number of entries of leaves that need not be worth keeping.
const leafSlack = 64

func (l *Lineage) growPlaces(b ID) {
	for int(b) >= len(l.places) {
		l.places = append(l.places, place{})
	}
}

// Insert makes b the youngest.
func (l *Lineage) Insert(b ID) {
	l.growPlaces(b)
	p := &l.places[b]
	p.held, p.stamp = true, l.tick
	l.tick++
	l.len++
	if p.children == 0 {
		l.listLeaf(b)
	}
	if parent := l.catalog.blocks[b].Parent; parent != NoBlock && !p.linked {
		p.linked = true
		l.growPlaces(parent)
		l.places[parent].children++
	}
	if len(l.leaves) > leafSlack+4*l.len {
		l.pruneLeaves()
	}
}

// Remove takes b out, and the ghosts that led to nothing else.
func (l *Lineage) Remove(b ID) {
	p := &l.places[b]
	p.held = false
	l.len--
	for !p.held && p.children == 0 && p.linked {
		p.linked = false
		b = l.catalog.blocks[b].Parent
		p = &l.places[b]
		p.children--
		if p.held && p.children == 0 {
			l.listLeaf(b)
		}
	}
}

// listLeaf enters b, a leaf, in leaves, unless it stands there still.
func (l *Lineage) listLeaf(b ID) {
	p := &l.places[b]
	if p.listed != p.stamp+1 {
		p.listed = p.stamp + 1
		l.leaves.Push(p.stamp, b, struct{}{})
	}
}

// Evict takes out the leaf that came first; NoBlock when nothing is held.
func (l *Lineage) Evict() ID {
	for len(l.leaves) > 0 {
		f := l.leaves.Pop()
		stands := l.isLeaf(f)
		l.unlistLeaf(f)
		if stands {
			l.Remove(f.Tie)
			return f.Tie
		}
	}
	return NoBlock
}

// isLeaf reports whether an entry of leaves still speaks of a leaf.
func (l *Lineage) isLeaf(f leaf) bool {
	p := &l.places[f.Tie]
	return p.held && p.children == 0 && p.stamp == f.Key
}

// unlistLeaf notes that f is no longer in leaves.
func (l *Lineage) unlistLeaf(f leaf) {
	if p := &l.places[f.Tie]; p.listed == f.Key+1 {
		p.listed = 0
	}
}

// pruneLeaves drops entries that no longer speak of a leaf.
func (l *Lineage) pruneLeaves() {
	l.leaves.Filter(func(f leaf) bool {
		if !l.isLeaf(f) {
			l.unlistLeaf(f)
			return false
		}
		return true
	})
}

// leaf is an entry of leaves: a block, its Tie, that was a leaf when it had the
// stamp that is its Key.
type leaf = heap.Item[int64, ID, struct{}]

// Check counts children and leaves.
func (l *Lineage) Check(where string) {
	children := make([]int32, len(l.places))
	held := 0
	listed := make(map[leaf]bool, len(l.leaves))
	for _, f := range l.leaves {
		listed[f] = true
	}
	for b := range l.places {
		p := &l.places[b]
		if p.linked {
			children[l.catalog.blocks[b].Parent]++
		}
		if p.held {
			held++
		}
		if p.held && p.children == 0 && !listed[leaf{Key: p.stamp, Tie: ID(b)}] {
			panic(fmt.Sprintf("%s: leaf %v is not listed", where, l.catalog.blocks[b].Name))
		}
	}
	for b := range l.places {
		if p := &l.places[b]; p.children != children[b] {
			panic(fmt.Sprintf("%s: place %d has %d children, must have %d", where, b, p.children, children[b]))
		}
	}
	if held != l.len {
		panic(fmt.Sprintf("%s: %d blocks, must be %d", where, held, l.len))
	}
}
