package vllm

import (
	"math"

	"github.com/replay-llm/replay/sim/prompt"
)

// segment is blocks with the content of blocks lo..hi-1 of a node's path, or of a
// request, that the same requests hold. Without any it stands in the queue of
// blocks that nobody holds, and is taken from hi-1 down.
type segment struct {
	owner        owner
	lo, hi       int32
	holders      int32
	older, newer segmentID // in the queue
	below, above segmentID // in the layer
	rest         segmentID // what was split off and follows, as long as somebody holds both
	isCopy       bool      // others of the layer are found before it
}

func (s *segment) size() int { return int(s.hi - s.lo) }

// segmentID is a segment's place in a store.
type segmentID int32

const noSegment segmentID = -1

// owner is what names the blocks of a segment: a prompt node, or a request alone.
type owner int32

const (
	nobody        owner = math.MinInt32 // it is gone
	unnamedBlocks owner = nobody + 1    // they never had a name
)

func nodeOwner(n prompt.NodeID) owner { return owner(n) }
func ownOwner(s slot) owner           { return ^owner(s) }

func (o owner) node() (n prompt.NodeID, ok bool) { return prompt.NodeID(o), o >= 0 }
func (o owner) slot() slot                       { return slot(^o) }
func (o owner) isKnown() bool                    { return o > unnamedBlocks }

// store is the segments of a pool, and the queue of those that nobody holds.
type store struct {
	all            []segment
	unused         []segmentID
	oldest, newest segmentID
}

func newStore() store { return store{oldest: noSegment, newest: noSegment} }

func (t *store) at(i segmentID) *segment { return &t.all[i] }

// add puts a segment into the store.
func (t *store) add(s segment) segmentID {
	if n := len(t.unused); n > 0 {
		i := t.unused[n-1]
		t.unused = t.unused[:n-1]
		t.all[i] = s
		return i
	}
	t.all = append(t.all, s)
	return segmentID(len(t.all) - 1)
}

// drop takes a segment out of the store that is in no list.
func (t *store) drop(i segmentID) { t.unused = append(t.unused, i) }

// push puts i, which nobody holds any more, at the end of the queue.
func (t *store) push(i segmentID) {
	t.all[i].older, t.all[i].newer = t.newest, noSegment
	if t.newest == noSegment {
		t.oldest = i
	} else {
		t.all[t.newest].newer = i
	}
	t.newest = i
}

// pushUnnamed puts blocks without a name at the end of the queue.
func (t *store) pushUnnamed(n int32) {
	if t.newest != noSegment && t.all[t.newest].owner == unnamedBlocks {
		t.all[t.newest].hi += n
		return
	}
	t.push(t.add(segment{owner: unnamedBlocks, hi: n}))
}

// unlink takes i out of the queue.
func (t *store) unlink(i segmentID) {
	s := &t.all[i]
	if s.older == noSegment {
		t.oldest = s.newer
	} else {
		t.all[s.older].newer = s.newer
	}
	if s.newer == noSegment {
		t.newest = s.older
	} else {
		t.all[s.newer].older = s.older
	}
}

// split makes the blocks of i from at on a segment of their own, which in the queue
// stands before it. The caller puts it into the layer.
func (t *store) split(i segmentID, at int32) (upper segmentID) {
	s := t.all[i]
	s.lo = at
	upper = t.add(s)
	t.all[i].hi, t.all[i].rest = at, upper
	if s.holders > 0 {
		return upper
	}
	t.all[i].older, t.all[upper].newer = upper, i
	if s.older == noSegment {
		t.oldest = upper
	} else {
		t.all[s.older].newer = upper
	}
	return upper
}

// appendPieces appends the segments of a holding to dst, in order.
func (t *store) appendPieces(dst []segmentID, h holding) []segmentID {
	for i, n := h.segment, h.blocks; n > 0; i = t.all[i].rest {
		dst = append(dst, i)
		n -= t.all[i].hi - t.all[i].lo
	}
	return dst
}
