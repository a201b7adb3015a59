package reference

import (
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// segment is a range of inactive blocks: blocks lo..hi-1 of the path to a node or, if node is prompt.None, of the
// private blocks of a request. The blocks of a segment were released one after the other from block hi-1 down.
//
// All segments form one list by age. An eviction removes the last block of the oldest segment. The order of eviction
// is that of docs/rules/vllm.md "The reference's rules" (the oldest leaf first). A holder of a block also holds its
// parent and releases the parent later. So a cached parent is always younger than its cached children, and the oldest
// block is a leaf.
type segment struct {
	older, younger int32
	// above is the segment that continues at hi in the same node, or in the private blocks of the same request; noSeg
	// if there is none.
	above  int32
	lo, hi int32
	node   prompt.NodeID // node with block hi-1, for blocks of a path
	owner  slot          // owner of private blocks; none for paths and after the owner has left
	uid    sim.RequestID // request of private blocks, for events
}

const noSeg int32 = -1

// span counts the blocks of a node, or the private blocks of a request. The first resident blocks are cached, and
// requests hold the first active of them.
type span struct {
	resident int32
	active   int32
	seg      int32 // segment of block active; undefined while resident = active
}

// lru is the list of segments by age. Segments are allocated in sheets, and are never moved.
type lru struct {
	sheets   []*[sheetSegments]segment
	used     int32 // number of segments in sheets that were ever used
	unused   []int32
	oldest   int32
	youngest int32
}

func newLRU() lru { return lru{oldest: noSeg, youngest: noSeg} }

// add appends a segment as the youngest.
func (l *lru) add(s segment) int32 {
	var i int32
	if n := len(l.unused); n > 0 {
		i = l.unused[n-1]
		l.unused = l.unused[:n-1]
	} else {
		i = l.newIndex()
	}
	s.older, s.younger = l.youngest, noSeg
	if l.youngest == noSeg {
		l.oldest = i
	} else {
		l.at(l.youngest).younger = i
	}
	l.youngest = i
	*l.at(i) = s
	return i
}

// sheetSegments is the number of segments per sheet.
const sheetSegments = 128

// at returns segment i.
func (l *lru) at(i int32) *segment {
	return &l.sheets[uint32(i)/sheetSegments][uint32(i)%sheetSegments]
}

// newIndex returns the index of a segment that was never used.
func (l *lru) newIndex() int32 {
	if l.used%sheetSegments == 0 {
		l.sheets = append(l.sheets, new([sheetSegments]segment))
	}
	l.used++
	return l.used - 1
}

// drop removes an empty segment from the list.
func (l *lru) drop(i int32) {
	s := l.at(i)
	if s.older == noSeg {
		l.oldest = s.younger
	} else {
		l.at(s.older).younger = s.younger
	}
	if s.younger == noSeg {
		l.youngest = s.older
	} else {
		l.at(s.younger).older = s.older
	}
	l.unused = append(l.unused, i)
}

// revive removes the blocks below hi of a node, or of the private blocks of a request, from their segments. first is
// the lowest of these segments. revive returns the lowest remaining segment.
func (l *lru) revive(first, hi int32) int32 {
	for first != noSeg {
		s := l.at(first)
		if s.lo >= hi {
			break
		}
		if s.hi > hi {
			s.lo = hi
			break
		}
		next := s.above
		l.drop(first)
		first = next
	}
	return first
}

// unlink removes the empty segment i from the chain that starts with first. i must be the last segment of the chain.
func (l *lru) unlink(first, i int32) {
	if first == i {
		return
	}
	at := first
	for l.at(at).above != i {
		at = l.at(at).above
	}
	l.at(at).above = noSeg
}
