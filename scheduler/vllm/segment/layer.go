package segment

import (
	"fmt"

	"github.com/replay-llm/replay/internal/invariant"
)

// Layer lists the segments in which lookups find the blocks of a node, or the blocks that only one request can find.
// Block numbers count from the start of the request.
type Layer struct {
	End         int32 // end of the blocks that lookups find; the first block number if there are none
	First, Last ID    // first and last segment that lookups find, in order of blocks
	Copies      ID    // first of the copies, in the order in which they were named; lookups find copies after the other segments are evicted
}

// NewLayer returns an empty layer with that first block number.
func NewLayer(start int32) Layer {
	return Layer{End: start, First: None, Last: None, Copies: None}
}

// InsertAbove inserts i after below in a layer, among the found segments or among the copies.
func (t *Store) InsertAbove(l *Layer, below, i ID) {
	b, s := t.At(below), t.At(i)
	s.Below, s.Above, s.IsCopy = below, b.Above, b.IsCopy
	if b.Above != None {
		t.At(b.Above).Below = i
	} else if !b.IsCopy {
		l.Last = i
	}
	b.Above = i
}

// Remove removes a segment from its layer.
func (t *Store) Remove(l *Layer, i ID) {
	s := t.At(i)
	switch {
	case s.Below != None:
		t.At(s.Below).Above = s.Above
	case s.IsCopy:
		l.Copies = s.Above
	default:
		l.First = s.Above
	}
	if s.Above != None {
		t.At(s.Above).Below = s.Below
	} else if !s.IsCopy {
		l.Last = s.Below
	}
}

// AppendCopy appends i to the copies of a layer.
func (t *Store) AppendCopy(l *Layer, i ID) {
	if l.Copies == None {
		l.Copies = i
		return
	}
	last := l.Copies
	for t.At(last).Above != None {
		last = t.At(last).Above
	}
	t.At(last).Above = i
	t.At(i).Below = last
}

// FindCopy returns the first copy that contains block to-1. FindCopy also returns the first block, at least from,
// from which on this is the first copy. If no copy contains block to-1, FindCopy returns None and the end of the last
// copy before that block, at least from.
func (t *Store) FindCopy(l *Layer, from, to int32) (ID, int32) {
	for i := l.Copies; i != None; i = t.At(i).Above {
		switch s := t.At(i); {
		case s.Lo < to && to <= s.Hi:
			if invariant.Enabled && s.Hi != to {
				panic(fmt.Sprintf("copy %d of blocks %d to %d is the next of block %d", i, s.Lo, s.Hi, to-1))
			}
			return i, max(from, s.Lo)
		case s.Hi < to:
			from = max(from, s.Hi)
		}
	}
	return None, from
}

// Fault returns a difference between the index of a layer and its segments, or "" if there is none.
func (t *Store) Fault(l *Layer, of Owner, start int32) string {
	at, below := start, None
	for i := l.First; i != None; i = t.At(i).Above {
		s := t.At(i)
		if s.Owner != of || s.Lo != at || s.IsCopy || s.Below != below {
			return fmt.Sprintf("segment %d of owner %d: blocks %d to %d after %d, must begin at %d: %+v", i, of, s.Lo, s.Hi, below, at, *s)
		}
		at, below = s.Hi, i
	}
	if at != l.End || below != l.Last {
		return fmt.Sprintf("owner %d: found up to block %d, %d counted; the last segment is %d, must be %d", of, at, l.End, l.Last, below)
	}
	below = None
	for i := l.Copies; i != None; i = t.At(i).Above {
		s := t.At(i)
		if s.Owner != of || !s.IsCopy || s.Below != below || s.Hi > l.End || s.Lo < start {
			return fmt.Sprintf("copy %d of owner %d after %d, which is found up to %d: %+v", i, of, below, l.End, *s)
		}
		below = i
	}
	return ""
}
