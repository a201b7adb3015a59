// Package segment has the KV blocks of an engine as segments: runs of blocks with the content of one prompt node or one request
// that the same requests hold. segment.go has the store and its queue, layer.go what can be found of a node, and lists.go the same for
// several groups of layers.
package segment

import (
	"fmt"
	"math"

	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/sim/prompt"
)

// Segment is blocks with the content of blocks Lo..Hi-1 of a node's path, or of a
// request, that the same requests hold. Without any it stands in the queue of
// free blocks, and is taken from Hi-1 down.
type Segment struct {
	Owner        Owner
	Lo, Hi       int32
	Holders      int32
	Older, Newer ID   // in the queue
	Below, Above ID   // in the layer
	Rest         ID   // what was split off and follows, as long as both are held
	IsCopy       bool // other segments of the layer are found before it
}

// Size returns the number of its blocks.
func (s *Segment) Size() int { return int(s.Hi - s.Lo) }

// ID is a segment's place in a store.
type ID int32

// None is the ID of no segment.
const None ID = -1

// Owner is what names the blocks of a segment: a prompt node, or a request alone.
type Owner int32

const (
	Gone    Owner = math.MinInt32 // it is gone
	Unnamed Owner = Gone + 1      // they never had a name
)

// NodeOwner returns the owner of the blocks of a node.
func NodeOwner(n prompt.NodeID) Owner { return Owner(n) }

// RequestOwner returns the owner of the blocks that only one request can name.
func RequestOwner(s blocks.Slot) Owner { return ^Owner(s) }

// Node returns the node that names the blocks, if one does.
func (o Owner) Node() (n prompt.NodeID, ok bool) { return prompt.NodeID(o), o >= 0 }

// Slot returns the request that names the blocks, where no node does.
func (o Owner) Slot() blocks.Slot { return blocks.Slot(^o) }

// IsKnown reports whether the blocks can be found.
func (o Owner) IsKnown() bool { return o > Unnamed }

// Store is the segments of a pool, and the queue of free ones.
type Store struct {
	All            []Segment
	unused         []ID
	Oldest, Newest ID // the first and the last of the queue
}

// NewStore returns an empty store.
func NewStore() Store { return Store{Oldest: None, Newest: None} }

// At returns a segment.
func (t *Store) At(i ID) *Segment { return &t.All[i] }

// Add puts a segment into the store.
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

// Drop takes a segment out of the store that is in no list.
func (t *Store) Drop(i ID) { t.unused = append(t.unused, i) }

// Push puts i, which is held no more, at the end of the queue.
func (t *Store) Push(i ID) {
	t.All[i].Older, t.All[i].Newer = t.Newest, None
	if t.Newest == None {
		t.Oldest = i
	} else {
		t.All[t.Newest].Newer = i
	}
	t.Newest = i
}

// PushUnnamed puts blocks without a name at the end of the queue.
func (t *Store) PushUnnamed(n int32) {
	if t.Newest != None && t.All[t.Newest].Owner == Unnamed {
		t.All[t.Newest].Hi += n
		return
	}
	t.Push(t.Add(Segment{Owner: Unnamed, Hi: n}))
}

// CountQueued returns the number of blocks in the queue, and of those among them that were named.
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

// Unlink takes i out of the queue.
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

// Split makes the blocks of i from at on a separate segment, which in the queue stands before it. The caller puts it into the
// layer.
func (t *Store) Split(i ID, at int32) (upper ID) {
	s := t.All[i]
	s.Lo = at
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

// Holding is a number of blocks that a request holds, from the first of a segment on. If that segment was split since,
// they continue in its rest.
type Holding struct {
	Segment ID
	Blocks  int32
}
