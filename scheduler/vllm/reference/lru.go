package reference

import (
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// segment is a run of free cached blocks: blocks lo..hi-1 of the
// path to a node or, where that is prompt.None, of what is a request's own,
// released one after the other from hi-1 down.
//
// All segments form one list by age. Evicting takes from the oldest segment its
// highest block. That is the order of docs/rules/vllm.md "The reference's rules"
// (the oldest leaf first): a holder of a block holds its parent and
// releases the parent later, so a cached parent is always younger than its
// cached children, and the oldest block is a leaf.
type segment struct {
	older, younger int32
	// above is the segment that continues from hi, in the node where this one ends (or among the request's own blocks);
	// noSeg if there is none.
	above  int32
	lo, hi int32
	node   prompt.NodeID // with block hi-1 of a path
	owner  slot          // of own blocks; none when it is gone, and for paths
	uid    sim.RequestID // of own blocks, for events
}

const noSeg int32 = -1

// span is the account of the blocks of a node, or of a request's own: the first
// resident are cached, the first active of these are held by a request.
type span struct {
	resident int32
	active   int32
	seg      int32 // segment of block active; means nothing while resident = active
}

// lru is the list of segments. They lie on sheets that stay where they are.
type lru struct {
	sheets   []*[sheetSegments]segment
	used     int32 // segments of the sheets that have been in the list
	unused   []int32
	oldest   int32
	youngest int32
}

func newLRU() lru { return lru{oldest: noSeg, youngest: noSeg} }

// add makes a segment the youngest.
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

// sheetSegments is the number of segments of a sheet.
const sheetSegments = 128

// at returns segment i.
func (l *lru) at(i int32) *segment {
	return &l.sheets[uint32(i)/sheetSegments][uint32(i)%sheetSegments]
}

// newIndex returns the number of a segment never used before.
func (l *lru) newIndex() int32 {
	if l.used%sheetSegments == 0 {
		l.sheets = append(l.sheets, new([sheetSegments]segment))
	}
	l.used++
	return l.used - 1
}

// drop takes an emptied segment out of the list.
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

// revive takes the blocks of a node (or of a request's own) below hi out of
// their segments, the lowest of which is first. It returns the lowest one that
// is left.
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

// unlink takes the emptied segment i, the last of the ones that start with first,
// out of their chain.
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
