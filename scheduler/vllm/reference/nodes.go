package reference

import (
	"math/bits"

	"github.com/replay-llm/replay/sim/prompt"
)

// node is what one engine knows of one prompt node: which of its blocks are
// cached and who holds them. Holders hold the first blocks of a node, mostly
// all of them.
type node struct {
	id prompt.NodeID // prompt.None where the place is free
	span
	holders int32 // requests that hold the whole node
	partial slot  // requests that hold only a part of it, linked by tailNext
}

// nodes maps node ids to states. It is a hash table with linear probing that
// closes the gap where a node leaves: an engine knows few of a long trace's
// nodes at once, and they had better lie close together.
//
// Nodes move when others come or leave.
type nodes struct {
	table []node // a power of two of them, at least twice as many as used
	shift uint8  // leaves of 64 bits as many as number the places
	used  int
}

// minNodes is the least number of places of a table.
const minNodes = 16

func newNodes(places int) nodes {
	t := nodes{table: make([]node, places), shift: uint8(65 - bits.Len(uint(places)))}
	for i := range t.table {
		t.table[i].id = prompt.None
	}
	return t
}

// home is where the search for n begins. The factor is that of the golden
// section, which keeps nodes that follow each other, all of them or every so
// many, out of each other's way.
func (t *nodes) home(n prompt.NodeID) int {
	return int(uint64(uint32(n)) * 0x9e3779b97f4a7c15 >> (t.shift & 63))
}

// find is the state of n; one without blocks and holders, which is not to be
// changed, when the engine knows nothing of n.
func (t *nodes) find(n prompt.NodeID) *node { return &t.table[t.place(n)] }

// place is where n is, or the free place where it would be.
func (t *nodes) place(n prompt.NodeID) int {
	mask := len(t.table) - 1
	i := t.home(n)
	for t.table[i].id != n && t.table[i].id != prompt.None {
		i = (i + 1) & mask
	}
	return i
}

// at is the state of n, made when there is none.
func (t *nodes) at(n prompt.NodeID) *node {
	if 2*(t.used+1) > len(t.table) {
		t.grow()
	}
	s := t.find(n)
	if s.id == prompt.None {
		*s = node{id: n, span: span{seg: noSeg}, partial: none}
		t.used++
	}
	return s
}

// forget takes out the node at a place, which is empty.
func (t *nodes) forget(place int) {
	t.used--
	table, mask := t.table, len(t.table)-1
	for i := (place + 1) & mask; table[i].id != prompt.None; i = (i + 1) & mask {
		if way := i - t.home(table[i].id); way&mask >= (i-place)&mask {
			table[place] = table[i]
			place = i
		}
	}
	table[place] = node{id: prompt.None}
}

func (t *nodes) grow() {
	wide := newNodes(2 * len(t.table))
	wide.used = t.used
	for i := range t.table {
		if n := &t.table[i]; n.id != prompt.None {
			*wide.find(n.id) = *n
		}
	}
	*t = wide
}

// empty says that the engine need not remember the node.
func (n *node) empty() bool { return n.resident == 0 && n.holders == 0 && n.partial == none }
