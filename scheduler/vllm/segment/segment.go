// Package segment manages the KV blocks of an engine as segments. A segment is a range of blocks of one prompt node
// or one request that have the same holders. segment.go has the store and its queue, layer.go the found segments of a
// node, and lists.go the same for several groups of layers.
package segment

import (
	"fmt"
	"math"

	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/sim/prompt"
)

// Segment is a range of blocks with the same holders. The content of the blocks is that of blocks Lo..Hi-1 on the
// path of a node, or of a request. A segment without holders is in the queue of free blocks, and is allocated from
// block Hi-1 down.
type Segment struct {
	Owner        Owner
	Lo, Hi       int32
	Holders      int32
	Older, Newer ID    // neighbors in the queue
	Below, Above ID    // neighbors in the layer
	Rest         ID    // segment with the next blocks of holdings that end after Hi
	Starts       int32 // number of holdings that begin here, or more
	IsCopy       bool  // lookups find other segments of the layer first
}

// Size returns the number of blocks in s.
func (s *Segment) Size() int { return int(s.Hi - s.Lo) }

// ID is the index of a segment in a store.
type ID int32

// None is the ID for no segment.
const None ID = -1

// Owner names the blocks of a segment: a prompt node, or a request that alone can find them.
type Owner int32

const (
	Gone    Owner = math.MinInt32 // the owner has left
	Unnamed Owner = Gone + 1      // the blocks never had a name
)

// NodeOwner returns the owner of the blocks of a node.
func NodeOwner(n prompt.NodeID) Owner { return Owner(n) }

// RequestOwner returns the owner of blocks that only one request can find.
func RequestOwner(s blocks.Slot) Owner { return ^Owner(s) }

// Node returns the node that names the blocks; ok is false if the owner is not a node.
func (o Owner) Node() (n prompt.NodeID, ok bool) { return prompt.NodeID(o), o >= 0 }

// Slot returns the slot of the request that names the blocks. The owner must not be a node.
func (o Owner) Slot() blocks.Slot { return blocks.Slot(^o) }

// IsKnown reports whether lookups can find the blocks.
func (o Owner) IsKnown() bool { return o > Unnamed }

// Store contains the segments of a pool, and the queue of free segments.
type Store struct {
	All            []Segment
	unused         []ID
	Oldest, Newest ID // first and last segment of the queue
}

// NewStore returns an empty store.
func NewStore() Store { return Store{Oldest: None, Newest: None} }

// At returns a segment.
func (t *Store) At(i ID) *Segment { return &t.All[i] }

// Add adds a segment to the store.
func (t *Store) Add(s Segment) ID {
	if n := len(t.unused); n > 0 {
		i := t.unused[n-1]
		t.unused = t.unused[:n-1]
		t.All[i] = s
		return i
	}
	t.All = append(t.All, s)
	return ID(len(t.All) - 1)
}

// Drop deletes a segment that is in no list.
func (t *Store) Drop(i ID) { t.unused = append(t.unused, i) }

// Push appends i to the queue. i must not have holders.
func (t *Store) Push(i ID) {
	t.All[i].Older, t.All[i].Newer = t.Newest, None
	if t.Newest == None {
		t.Oldest = i
	} else {
		t.All[t.Newest].Newer = i
	}
	t.Newest = i
}

// PushUnnamed appends n blocks without a name to the queue.
func (t *Store) PushUnnamed(n int32) {
	if t.Newest != None && t.All[t.Newest].Owner == Unnamed {
		t.All[t.Newest].Hi += n
		return
	}
	t.Push(t.Add(Segment{Owner: Unnamed, Hi: n}))
}

// CountQueued returns the number of blocks in the queue, and how many of them have or had names.
func (t *Store) CountQueued() (queued, cached int) {
	for i := t.Oldest; i != None; i = t.All[i].Newer {
		s := &t.All[i]
		if queued += s.Size(); s.Owner != Unnamed {
			cached += s.Size()
		}
		if s.Holders != 0 || s.Size() <= 0 {
			panic(fmt.Sprintf("segment %d of %d blocks in the queue has %d holders", i, s.Size(), s.Holders))
		}
	}
	return queued, cached
}

// Unlink removes i from the queue.
func (t *Store) Unlink(i ID) {
	s := &t.All[i]
	if s.Older == None {
		t.Oldest = s.Newer
	} else {
		t.All[s.Older].Newer = s.Newer
	}
	if s.Newer == None {
		t.Newest = s.Older
	} else {
		t.All[s.Newer].Older = s.Older
	}
}

// Split moves the blocks of i from block at on into a new segment, which precedes i in the queue. The caller must add
// the new segment to the layer.
func (t *Store) Split(i ID, at int32) (upper ID) {
	s := t.All[i]
	s.Lo, s.Starts = at, 0
	upper = t.Add(s)
	t.All[i].Hi, t.All[i].Rest = at, upper
	if s.Holders > 0 {
		return upper
	}
	t.All[i].Older, t.All[upper].Newer = upper, i
	if s.Older == None {
		t.Oldest = upper
	} else {
		t.All[s.Older].Newer = upper
	}
	return upper
}

// AppendPieces appends the segments of a holding to dst, in order.
func (t *Store) AppendPieces(dst []ID, h Holding) []ID {
	for i, n := h.Segment, h.Blocks; n > 0; i = t.All[i].Rest {
		dst = append(dst, i)
		n -= t.All[i].Hi - t.All[i].Lo
	}
	return dst
}

// Join moves the blocks of upper into lower, the segment below it in a layer, if all holders of one hold the other.
// Join reports whether it did. Each holder of upper must have a holding that begins at upper or continues from lower.
func (t *Store) Join(l *Layer, lower, upper ID) bool {
	a, b := t.At(lower), t.At(upper)
	if b.Starts > 0 || a.Holders != b.Holders || a.Holders == 0 || a.Hi != b.Lo {
		return false
	}
	a.Hi, a.Rest = b.Hi, b.Rest
	t.Remove(l, upper)
	t.Drop(upper)
	return true
}

// Holding is a number of blocks that a request holds, starting with the first block of a segment. The holding may
// continue in the Rest of that segment.
type Holding struct {
	Segment ID
	Blocks  int32
}
