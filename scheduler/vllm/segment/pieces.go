package segment

import (
	"cmp"
	"fmt"

	"github.com/replay-llm/replay/internal/probe"
	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim/prompt"
)

// Pieces are blocks that fill an empty cache.
type Pieces struct {
	Store *Store
	Nodes *probe.Table[prompt.NodeID, Layer]
	Tree  *prompt.Tree
	all   []piece
}

// piece is a segment with blocks of one node.
type piece struct {
	segment ID
	node    prompt.NodeID
	index   int // index of the element in the list of cached blocks
	rank    int32
	lo, hi  int32
}

// Add adds segments for b, one per node. The last one is the first in the queue. index is the index of b in the list
// of cached blocks.
func (p *Pieces) Add(index int, b *scheduler.CachedBlocks) {
	for hi := b.To; hi > b.From; {
		n := p.Tree.NodeOf(b.Node, hi-1)
		lo := max(b.From, p.Tree.Start(n))
		i := p.Store.Add(Segment{Owner: NodeOwner(n), Lo: lo, Hi: hi, IsCopy: b.Copy > 0, Below: None, Above: None})
		p.Store.Push(i)
		p.all = append(p.all, piece{segment: i, node: n, index: index, rank: b.Copy, lo: lo, hi: hi})
		hi = lo
	}
}

// Link builds the layers from all segments.
func (p *Pieces) Link() error {
	all := p.all
	stable.Sort(all, func(a, b piece) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.rank, b.rank), cmp.Compare(a.lo, b.lo))
	})
	for i := range all {
		x := &all[i]
		l, isNew := p.Nodes.Put(x.node)
		if isNew {
			*l = NewLayer(p.Tree.Start(x.node))
		}
		s := p.Store.At(x.segment)
		switch up := p.Tree.Parent(x.node); {
		case isNew && up != prompt.None && p.Nodes.Get(up).End < p.Tree.End(up), x.rank == 0 && x.lo > l.End:
			return &scheduler.CacheError{Index: x.index, Reason: fmt.Sprintf("block %d is cached and not the one before it", x.lo)}
		case x.rank == 0 && x.lo < l.End:
			return &scheduler.CacheError{Index: x.index, Reason: fmt.Sprintf("block %d is cached twice, must be one of them as a copy", x.lo)}
		case x.rank > 0 && x.hi > l.End:
			return &scheduler.CacheError{Index: x.index, Reason: fmt.Sprintf("a copy of block %d, which is not cached", x.hi-1)}
		case x.rank > 0:
			p.Store.AppendCopy(l, x.segment)
			continue
		}
		l.End = x.hi
		if s.Below = l.Last; l.Last == None {
			l.First = x.segment
		} else {
			p.Store.At(l.Last).Above = x.segment
		}
		l.Last = x.segment
	}
	return nil
}
