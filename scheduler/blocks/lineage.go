package blocks

import (
	"fmt"

	"github.com/replay-llm/replay/internal/heap"
)

// Lineage is the set of unused cached blocks. Lineage evicts the oldest block without a cached descendant.
//
// A list by age is not sufficient: a fetch releases a prefix first block first, so that a parent can be older than
// its children.
type Lineage struct {
	catalog *Catalog
	tick    int64 // stamp of the next inserted block
	len     int   // blocks held
	places  []place
	// leaves contains blocks by their stamp when they became leaves. Stale entries stay until they are popped or
	// pruned.
	leaves heap.Heap[int64, ID, struct{}]
}

// place is the state of a block in a Lineage. A place with children but without its block is a ghost.
type place struct {
	stamp    int64
	listed   int64 // 1 + the stamp of the newest entry of the place in leaves; 0: none
	children int32 // number of linked places with this block as parent
	held     bool
	linked   bool // the block is counted among its parent's children
}

// NewLineage returns an empty lineage of blocks of a catalog.
func NewLineage(k *Catalog) Lineage { return Lineage{catalog: k} }

// Len returns the number of blocks held.
func (l *Lineage) Len() int { return l.len }

// leafSlack is the number of entries that leaves may have, in addition to four per block, before stale entries are
// pruned.
const leafSlack = 64

func (l *Lineage) growPlaces(b ID) {
	for int(b) >= len(l.places) {
		l.places = append(l.places, place{})
	}
}

// Insert adds b as the youngest block.
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

// Remove removes b, and the ghosts above b that have no other children.
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

// listLeaf adds b, a leaf, to leaves if its current stamp has no entry.
func (l *Lineage) listLeaf(b ID) {
	p := &l.places[b]
	if p.listed != p.stamp+1 {
		p.listed = p.stamp + 1
		l.leaves.Push(p.stamp, b, struct{}{})
	}
}

// Evict removes and returns the oldest leaf, or NoBlock if there is none.
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

// isLeaf reports whether f is current: its block is still a leaf with the same stamp.
func (l *Lineage) isLeaf(f leaf) bool {
	p := &l.places[f.Tie]
	return p.held && p.children == 0 && p.stamp == f.Key
}

// unlistLeaf records that f is no longer in leaves.
func (l *Lineage) unlistLeaf(f leaf) {
	if p := &l.places[f.Tie]; p.listed == f.Key+1 {
		p.listed = 0
	}
}

// pruneLeaves removes stale entries from leaves.
func (l *Lineage) pruneLeaves() {
	l.leaves.Filter(func(f leaf) bool {
		if !l.isLeaf(f) {
			l.unlistLeaf(f)
			return false
		}
		return true
	})
}

// leaf is an entry of leaves: Tie is a block, and Key is the stamp of the block when it became a leaf.
type leaf = heap.Item[int64, ID, struct{}]

// Check panics if the counters of children and blocks or the entries of leaves are wrong.
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
