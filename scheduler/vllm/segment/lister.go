package segment

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim/prompt"
)

// Lister lists segments in order of eviction.
type Lister struct {
	Store  *Store
	Tree   *prompt.Tree
	All    []scheduler.CachedBlocks
	Bottom prompt.NodeID // node of the first block of the last element of All
}

// Add appends segment i.
func (l *Lister) Add(i ID) {
	s := l.Store.At(i)
	var last *scheduler.CachedBlocks
	if n := len(l.All); n > 0 {
		last = &l.All[n-1]
	}
	node, ok := s.Owner.Node()
	if !ok || !s.Owner.IsKnown() {
		blank := s.Owner == Unnamed
		if last != nil && last.Node == prompt.None && last.Blank == blank {
			last.To += s.Hi - s.Lo
			return
		}
		l.All = append(l.All, scheduler.CachedBlocks{Node: prompt.None, To: s.Hi - s.Lo, Blank: blank})
		return
	}
	rank := l.Store.rankCopy(i)
	if last != nil && last.Node != prompt.None && last.Copy+rank == 0 && last.From == s.Hi && l.Tree.NodeOf(l.Bottom, s.Hi-1) == node {
		last.From, l.Bottom = s.Lo, node
		return
	}
	l.All, l.Bottom = append(l.All, scheduler.CachedBlocks{Node: node, From: s.Lo, To: s.Hi, Copy: rank}), node
}

// rankCopy returns 1 + the number of copies of the same content in front of copy i, or 0 if i is not a copy.
func (t *Store) rankCopy(i ID) int32 {
	of := t.At(i)
	if !of.IsCopy {
		return 0
	}
	most := int32(0)
	for j := of.Below; j != None; j = t.At(j).Below {
		if s := t.At(j); s.Lo < of.Hi && of.Lo < s.Hi {
			most = max(most, t.rankCopy(j))
		}
	}
	return most + 1
}
