package segment

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/replay-llm/replay/internal/probe"
	"github.com/replay-llm/replay/sim/prompt"
)

// Lists contains the segments of a pool for several groups of layers. Each prompt node and each request has a list
// per group, with the blocks that lookups can find.
//
// The segments of a list are in the order in which their blocks were named. A block is found in the first segment
// that contains it. Lists can have gaps, because layers with windows release the first blocks of a request before the
// last blocks.
type Lists struct {
	Store
	groups  int
	shift   uint    // each entry has 1 << shift slots for lists, at least as many as groups
	watched int     // the group for which Name and Evict report changes; -1: none
	lists   []Layer // lists by entry and group, without copies; End is maintained in the watched group only
	entries []entry
	unused  []Entry
	nodes   probe.Table[prompt.NodeID, Entry]
	pieces  []ID // segments in Release and DropFirst
	changes int64
}

// Entry refers to the lists of a node or a request, one list per group. NoEntry has no lists.
type Entry int32

// NoEntry is the entry of nodes without blocks.
const NoEntry Entry = 0

// entry is the common data of the lists of a node or a request.
type entry struct {
	node     prompt.NodeID // prompt.None for requests
	segments int32         // number of segments in all groups
	kept     bool          // the request has not left and may name more blocks
	changed  int64         // number of the latest change of the lists
}

// NewLists returns empty lists for a number of groups; watched is a group or -1.
func NewLists(groups, watched int) Lists {
	return Lists{Store: NewStore(), groups: groups, shift: uint(bits.Len(uint(groups - 1))), watched: watched, nodes: probe.New[prompt.NodeID, Entry](prompt.None)}
}

// Find returns the entry of a node, or NoEntry.
func (t *Lists) Find(n prompt.NodeID) Entry { return *t.nodes.Get(n) }

// Enter returns the entry of a node, and adds it if there is none.
func (t *Lists) Enter(n prompt.NodeID) Entry {
	e, isNew := t.nodes.Put(n)
	if isNew {
		*e = t.addEntry(entry{node: n})
	}
	return *e
}

// EnterRequest returns a new entry for the blocks that only one request can find.
func (t *Lists) EnterRequest() Entry { return t.addEntry(entry{node: prompt.None, kept: true}) }

func (t *Lists) addEntry(x entry) Entry {
	e := Entry(len(t.entries) + 1)
	if n := len(t.unused); n > 0 {
		e, t.unused = t.unused[n-1], t.unused[:n-1]
	} else {
		t.entries = append(t.entries, entry{})
		n := len(t.lists) + 1<<t.shift
		t.lists = slices.Grow(t.lists, 1<<t.shift)[:n]
	}
	t.entries[e-1] = x
	t.noteChange(e)
	for g := range t.groups {
		*t.listOf(e, g) = NewLayer(0)
	}
	return e
}

func (t *Lists) noteChange(e Entry) {
	t.changes++
	t.entries[e-1].changed = t.changes
}

// Changes returns the number of changes of all lists.
func (t *Lists) Changes() int64 { return t.changes }

// Changed returns the number of the latest change of an entry.
func (t *Lists) Changed(e Entry) int64 { return t.entries[e-1].changed }

// Leave marks the entry of a request that has left. The entry is removed with its last segment.
func (t *Lists) Leave(e Entry) {
	t.entries[e-1].kept = false
	t.dropEmpty(e)
}

func (t *Lists) dropEmpty(e Entry) {
	x := &t.entries[e-1]
	if x.segments > 0 || x.kept {
		return
	}
	if x.node != prompt.None {
		t.nodes.Delete(x.node)
	}
	t.unused = append(t.unused, e)
}

func (t *Lists) listOf(e Entry, g int) *Layer { return &t.lists[int(e-1)<<t.shift+g] }

// ownerOf returns the owner of the blocks of an entry in a group. parseOwner is the inverse.
func (t *Lists) ownerOf(e Entry, g int) Owner { return Owner(int(e-1)<<t.shift + g) }

func (t *Lists) parseOwner(o Owner) (e Entry, g int) {
	return Entry(o>>t.shift + 1), int(o & (1<<t.shift - 1))
}

// VisitNodes calls use with every node that has blocks in a list.
func (t *Lists) VisitNodes(use func(prompt.NodeID)) {
	for n := range t.nodes.All() {
		use(n)
	}
}

// Get returns the segment in which lookups find a block of an entry, and the end of the blocks that they find in it.
// Get returns None if the block cannot be found.
func (t *Lists) Get(e Entry, g int, block int32) (i ID, end int32) {
	if e == NoEntry {
		return None, 0
	}
	end = math.MaxInt32
	for i = t.listOf(e, g).First; i != None; i = t.All[i].Above {
		switch s := &t.All[i]; {
		case s.Lo > block:
			end = min(end, s.Lo)
		case block < s.Hi:
			return i, min(end, s.Hi)
		}
	}
	return None, 0
}

// ReachUp returns the first block from `from` on that cannot be found, or end if all can.
func (t *Lists) ReachUp(e Entry, g int, from, end int32) int32 {
	for from < end {
		i, to := t.Get(e, g, from)
		if i == None {
			return from
		}
		from = to
	}
	return end
}

// ReachDown returns the first block, at least from, such that all blocks from there up to end can be found.
func (t *Lists) ReachDown(e Entry, g int, from, end int32) int32 {
	for end > from {
		i, _ := t.Get(e, g, end-1)
		if i == None {
			return end
		}
		end = t.All[i].Lo
	}
	return from
}

// LastBelow returns the end of the last blocks before block that can be found, or from if there are none after from.
func (t *Lists) LastBelow(e Entry, g int, from, block int32) int32 {
	if e == NoEntry {
		return from
	}
	for i := t.listOf(e, g).First; i != None; i = t.All[i].Above {
		if s := &t.All[i]; s.Lo < block {
			from = max(from, min(block, s.Hi))
		}
	}
	return from
}

// Name names the blocks from `from` up to end of one request, so that lookups can find them. The new blocks follow
// the blocks in held. Name returns held with the new blocks. more is true if end has grown for a node in the watched
// group.
func (t *Lists) Name(e Entry, g int, held []Holding, from, end int32) (all []Holding, more bool) {
	l := t.listOf(e, g)
	t.noteChange(e)
	if more = g == t.watched && end > l.End; more {
		l.End = end
		more = t.entries[e-1].node != prompt.None
	}
	if n := len(held); n > 0 && held[n-1].Segment == l.Last {
		h, s := &held[n-1], &t.All[l.Last]
		if s.Holders == 1 && s.Hi == from && s.Hi-s.Lo == h.Blocks {
			s.Hi = end
			h.Blocks = end - s.Lo
			return held, more
		}
	}
	i := t.Add(Segment{Owner: t.ownerOf(e, g), Lo: from, Hi: end, Holders: 1, Below: l.Last, Above: None})
	if l.Last == None {
		l.First = i
	} else {
		t.All[l.Last].Above = i
	}
	l.Last = i
	t.entries[e-1].segments++
	return append(held, Holding{Segment: i, Blocks: end - from}), more
}

// cut moves the blocks of i from block at on into a new segment, which follows i in its list.
func (t *Lists) cut(i ID, at int32) (upper ID) {
	upper = t.Split(i, at)
	s := &t.All[i]
	if !s.Owner.IsKnown() {
		return upper
	}
	e, g := t.parseOwner(s.Owner)
	t.entries[e-1].segments++
	t.InsertAbove(t.listOf(e, g), i, upper)
	return upper
}

// Hold adds a holder to the blocks of i from `from` up to end, which become a separate segment. Hold returns held
// with the new blocks, and how many of the new blocks were idle.
func (t *Lists) Hold(i ID, held []Holding, from, end int32) (all []Holding, idle int) {
	if t.All[i].Lo < from {
		i = t.cut(i, from)
	}
	if end < t.All[i].Hi {
		t.cut(i, end)
	}
	s := &t.All[i]
	if s.Holders == 0 {
		t.Unlink(i)
		idle = s.Size()
	}
	s.Holders++
	if n := len(held); n > 0 && s.Holders == 1 && held[n-1].Segment == s.Below {
		h, b := &held[n-1], &t.All[s.Below]
		if b.Holders == 1 && b.Hi == from && b.Size() == int(h.Blocks) { // one holder, which holds all blocks of the segment
			b.Hi = end
			h.Blocks += end - from
			t.dropSegment(i)
			return held, idle
		}
	}
	return append(held, Holding{Segment: i, Blocks: end - from}), idle
}

// dropSegment removes i from its list and from the store. i must not be in the queue.
func (t *Lists) dropSegment(i ID) {
	if s := &t.All[i]; s.Owner.IsKnown() {
		e, g := t.parseOwner(s.Owner)
		t.Remove(t.listOf(e, g), i)
		t.entries[e-1].segments--
	}
	t.Drop(i)
}

// Release removes a holder from the blocks of all holdings of one group, last to first. Release returns how many of
// the blocks became idle.
func (t *Lists) Release(held []Holding) (idle int) {
	t.pieces = t.pieces[:0]
	for _, h := range held {
		t.pieces = t.AppendPieces(t.pieces, h)
	}
	return t.releasePieces()
}

func (t *Lists) releasePieces() (idle int) {
	for k := len(t.pieces) - 1; k >= 0; k-- {
		i := t.pieces[k]
		s := &t.All[i]
		if s.Holders--; s.Holders > 0 {
			continue
		}
		idle += s.Size()
		if t.Newest != None && t.Newest == s.Above { // the next segment in the list is the last in the queue
			if a := &t.All[t.Newest]; s.Hi == a.Lo {
				a.Lo = s.Lo
				t.dropSegment(i)
				continue
			}
		}
		t.Push(i)
	}
	return idle
}

// DropFirst removes a holder from the blocks before end, last to first. DropFirst returns the remaining holdings, and
// how many blocks became idle.
func (t *Lists) DropFirst(held []Holding, end int32) (left []Holding, idle int) {
	if len(held) > 0 {
		if idle = t.dropOwn(&held[0], end); idle > 0 {
			return held, idle
		}
	}
	t.pieces = t.pieces[:0]
	gone := 0
	for k := range held {
		h := &held[k]
		i, blocks := h.Segment, h.Blocks
		for blocks > 0 && t.All[i].Lo < end {
			if t.All[i].Hi > end {
				t.cut(i, end)
			}
			t.pieces = append(t.pieces, i)
			blocks -= t.All[i].Hi - t.All[i].Lo
			i = t.All[i].Rest
		}
		if blocks > 0 {
			h.Segment, h.Blocks = i, blocks
			break
		}
		gone++
	}
	return slices.Delete(held, 0, gone), t.releasePieces()
}

// dropOwn is DropFirst for a holding of a whole segment without other holders, if a part of the segment remains.
// dropOwn returns the number of blocks before end, or 0 if the holding is not of this kind.
func (t *Lists) dropOwn(h *Holding, end int32) (idle int) {
	s := t.At(h.Segment)
	if s.Holders != 1 || end <= s.Lo || end >= s.Hi || s.Hi-s.Lo != h.Blocks {
		return 0
	}
	n := end - s.Lo
	lower := t.Add(Segment{Owner: s.Owner, Lo: s.Lo, Hi: end, Below: s.Below, Above: h.Segment})
	s = t.At(h.Segment)
	e, g := t.parseOwner(s.Owner)
	if s.Below == None {
		t.listOf(e, g).First = lower
	} else {
		t.All[s.Below].Above = lower
	}
	s.Below, s.Lo = lower, end
	h.Blocks -= n
	t.entries[e-1].segments++
	t.Push(lower)
	return int(n)
}

// Eviction is the result of Evict.
type Eviction struct {
	Blocks  int32
	Unnamed bool          // the blocks had no name
	Node    prompt.NodeID // the node with fewer blocks in the watched group, or prompt.None
	End     int32         // new end of the blocks of Node
}

// Evict allocates up to `most` blocks from the front of the queue.
func (t *Lists) Evict(most int32) Eviction {
	i := t.Oldest
	s := &t.All[i]
	x := Eviction{Blocks: min(most, s.Hi-s.Lo), Unnamed: s.Owner == Unnamed, Node: prompt.None}
	end := s.Hi
	s.Hi -= x.Blocks
	isEmpty := s.Hi == s.Lo
	if isEmpty {
		t.Unlink(i)
	}
	if s.Owner.IsKnown() {
		e, g := t.parseOwner(s.Owner)
		l := t.listOf(e, g)
		t.noteChange(e)
		if isEmpty {
			t.Remove(l, i)
		}
		if g == t.watched && end == l.End {
			if l.End = t.findEnd(l); l.End < end {
				x.Node, x.End = t.entries[e-1].node, l.End
			}
		}
		if isEmpty {
			t.entries[e-1].segments--
			t.dropEmpty(e)
		}
	}
	if isEmpty {
		t.Drop(i)
	}
	return x
}

// findEnd returns the end of the blocks in a list, or 0 if it is empty.
func (t *Lists) findEnd(l *Layer) (end int32) {
	for i := l.First; i != None; i = t.All[i].Above {
		end = max(end, t.All[i].Hi)
	}
	return end
}

// Fault returns a difference between the lists and their segments, or "" if there is none. In groups for which whole
// returns true, the blocks of a node must have no gaps.
func (t *Lists) Fault(whole func(g int) bool, start func(prompt.NodeID) int32) string {
	for n, e := range t.nodes.All() {
		if t.entries[*e-1].node != n {
			return fmt.Sprintf("entry %d of node %d has node %d", *e, n, t.entries[*e-1].node)
		}
		for g := range t.groups {
			end := t.findEnd(t.listOf(*e, g))
			if whole(g) && end > 0 && t.ReachUp(*e, g, start(n), end) < end {
				return fmt.Sprintf("node %d in group %d: a gap before block %d", n, g, end)
			}
		}
	}
	for k := range t.entries {
		e, segments := Entry(k+1), int32(0)
		for g := range t.groups {
			l, below := t.listOf(e, g), None
			for i := l.First; i != None; i = t.All[i].Above {
				if s := &t.All[i]; s.Owner != t.ownerOf(e, g) || s.Below != below || s.Hi <= s.Lo {
					return fmt.Sprintf("segment %d of entry %d in group %d after %d: %+v", i, e, g, below, *s)
				}
				below = i
				segments++
			}
			if end := t.findEnd(l); below != l.Last || g == t.watched && end != l.End {
				return fmt.Sprintf("entry %d in group %d: segment %d is the last, found up to block %d: %+v", e, g, below, end, *l)
			}
		}
		if segments != t.entries[k].segments {
			return fmt.Sprintf("entry %d: %d segments, %d counted", e, segments, t.entries[k].segments)
		}
	}
	return ""
}
