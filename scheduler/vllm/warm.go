package vllm

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/vllm/segment"
	"github.com/replay-llm/replay/sim/prompt"
)

// Cache returns what the prefix cache holds, as if requests left now: first those whose blocks are kept
// until they have been sent, then those that run, in order of admission.
func (c *Core) Cache() scheduler.Cache {
	p, ok := c.pool.(*segments)
	if !ok {
		return scheduler.Cache{}
	}
	l := lister{pool: p, bottom: prompt.None}
	for i := p.store.Oldest; i != segment.None; i = p.store.At(i).Newer {
		l.add(i)
	}
	left := make([]int32, len(p.store.All)) // holders that have left
	for _, leaving := range [...][]slot{c.kept, c.running} {
		for _, s := range leaving {
			for _, h := range slices.Backward(c.requests[s].holdings) {
				for _, i := range slices.Backward(p.store.AppendPieces(nil, h)) {
					if left[i]++; left[i] == p.store.At(i).Holders {
						l.add(i)
					}
				}
			}
		}
	}
	return scheduler.Cache{Blocks: l.all}
}

// lister lists segments in order of eviction.
type lister struct {
	pool   *segments
	all    []scheduler.CachedBlocks
	bottom prompt.NodeID // the node of the first block of the last of all
}

func (l *lister) add(i segment.ID) {
	s := l.pool.store.At(i)
	var last *scheduler.CachedBlocks
	if n := len(l.all); n > 0 {
		last = &l.all[n-1]
	}
	node, ok := s.Owner.Node()
	if !ok || !s.Owner.IsKnown() {
		blank := s.Owner == segment.Unnamed
		if last != nil && last.Node == prompt.None && last.Blank == blank {
			last.To += s.Hi - s.Lo
			return
		}
		l.all = append(l.all, scheduler.CachedBlocks{Node: prompt.None, To: s.Hi - s.Lo, Blank: blank})
		return
	}
	rank := l.pool.rankCopy(i)
	if last != nil && last.Node != prompt.None && last.Copy+rank == 0 && last.From == s.Hi && l.pool.tree.NodeOf(l.bottom, s.Hi-1) == node {
		last.From, l.bottom = s.Lo, node
		return
	}
	l.all, l.bottom = append(l.all, scheduler.CachedBlocks{Node: node, From: s.Lo, To: s.Hi, Copy: rank}), node
}

// rankCopy returns 1 more than the number of copies of one content that are found before copy i; 0 when it
// is no copy.
func (p *segments) rankCopy(i segment.ID) int32 {
	of := p.store.At(i)
	if !of.IsCopy {
		return 0
	}
	most := int32(0)
	for j := of.Below; j != segment.None; j = p.store.At(j).Below {
		if s := p.store.At(j); s.Lo < of.Hi && of.Lo < s.Hi {
			most = max(most, p.rankCopy(j))
		}
	}
	return most + 1
}

// Warm fills the cache of a core that has done nothing yet.
func (c *Core) Warm(from *scheduler.Cache, pass *scheduler.Pass) error {
	p, ok := c.pool.(*segments)
	if !ok || !c.cfg.PrefixCaching {
		return errors.New("only the prefix cache of a vLLM engine on the device alone, whose layers attend to everything, can be filled")
	}
	if c.arrived > 0 || c.plans > 0 {
		panic("vllm: Warm of a core that has done something")
	}
	trial := &segments{supply: new(supply), core: c, tree: p.tree}
	if err := trial.fill(from.Blocks); err != nil {
		return err
	}
	if err := trial.tryEviction(); err != nil {
		return err
	}
	if err := p.fill(from.Blocks); err != nil {
		return err
	}
	c.cold = false // it is no fresh engine
	pass.Reset(0)
	c.events.beginPass(pass)
	p.tellCached()
	return nil
}

// piece is blocks of a node that a segment is made for.
type piece struct {
	segment segment.ID
	node    prompt.NodeID
	index   int // of the cached blocks it is of
	rank    int32
	lo, hi  int32
}

// fill makes segments of blocks in order of eviction, and evicts what is too much.
func (p *segments) fill(all []scheduler.CachedBlocks) error {
	var found []piece
	capacity, total := p.usable, 0
	fresh := newSegments(p.core)
	p.store, p.nodes, p.oneQueue = fresh.store, fresh.nodes, fresh.oneQueue
	counted := p.counted
	p.counted, p.cached = false, 0
	for i := range all {
		b := &all[i]
		total += int(b.To - b.From)
		switch {
		case b.Own > 0:
			return &scheduler.CacheError{Index: i, Reason: "blocks of an own sequence, want them without a prompt in a cache of vLLM"}
		case b.Blank && !p.oneQueue:
			return &scheduler.CacheError{Index: i, Reason: "blank blocks, which stand in no line by this engine's rules"}
		case b.Blank:
			p.store.PushUnnamed(b.To - b.From)
			continue
		case b.Node == prompt.None:
			p.store.Push(p.store.Add(segment.Segment{Owner: segment.Gone, Hi: b.To - b.From, Below: segment.None, Above: segment.None}))
		default:
			found = p.addPieces(found, i, b)
		}
		p.cached += int(b.To - b.From)
	}
	if err := p.linkPieces(found); err != nil {
		return err
	}
	for total > capacity && capacity > 0 {
		total -= p.evictBlocks(int32(total - capacity))
	}
	p.blank, p.free, p.counted = max(0, capacity-total), capacity, counted
	return nil
}

// addPieces makes segments of b, node by node, the last of them the first in line.
func (p *segments) addPieces(dst []piece, index int, b *scheduler.CachedBlocks) []piece {
	for hi := b.To; hi > b.From; {
		n := p.tree.NodeOf(b.Node, hi-1)
		lo := max(b.From, p.tree.Start(n))
		i := p.store.Add(segment.Segment{Owner: segment.NodeOwner(n), Lo: lo, Hi: hi, IsCopy: b.Copy > 0, Below: segment.None, Above: segment.None})
		p.store.Push(i)
		dst = append(dst, piece{segment: i, node: n, index: index, rank: b.Copy, lo: lo, hi: hi})
		hi = lo
	}
	return dst
}

// linkPieces makes layers of the segments of pieces.
func (p *segments) linkPieces(all []piece) error {
	slices.SortStableFunc(all, func(a, b piece) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.rank, b.rank), cmp.Compare(a.lo, b.lo))
	})
	for i := range all {
		x := &all[i]
		l, isNew := p.nodes.Put(x.node)
		if isNew {
			*l = segment.NewLayer(p.tree.Start(x.node))
		}
		s := p.store.At(x.segment)
		switch up := p.tree.Parent(x.node); {
		case isNew && up != prompt.None && p.nodes.Get(up).End < p.tree.End(up), x.rank == 0 && x.lo > l.End:
			return &scheduler.CacheError{Index: x.index, Reason: fmt.Sprintf("block %d is cached and not the one before it", x.lo)}
		case x.rank == 0 && x.lo < l.End:
			return &scheduler.CacheError{Index: x.index, Reason: fmt.Sprintf("block %d is cached twice, want one of them as a copy", x.lo)}
		case x.rank > 0 && x.hi > l.End:
			return &scheduler.CacheError{Index: x.index, Reason: fmt.Sprintf("a copy of block %d, which is not cached", x.hi-1)}
		case x.rank > 0:
			p.store.AppendCopy(l, x.segment)
			continue
		}
		l.End = x.hi
		if s.Below = l.Last; l.Last == segment.None {
			l.First = x.segment
		} else {
			p.store.At(l.Last).Above = x.segment
		}
		l.Last = x.segment
	}
	return nil
}

// tryEviction evicts everything, and returns an error where blocks that can be found lose those before them.
func (p *segments) tryEviction() error {
	below := make(map[prompt.NodeID]int) // by node: nodes right after it of which something is cached
	for n := range p.nodes.All() {
		below[p.tree.Parent(n)]++
	}
	for p.store.Oldest != segment.None {
		s := p.store.At(p.store.Oldest)
		n, named := s.Owner.Node()
		if !named {
			p.evictBlocks(s.Hi - s.Lo)
			continue
		}
		at, count := s.Hi-1, s.Hi-s.Lo
		l := p.nodes.Get(n)
		if l.Copies != segment.None {
			count = 1
		}
		before := l.End
		p.evictBlocks(count)
		l = p.nodes.Get(n)
		gone := l.End == 0 || l.End == p.tree.Start(n)
		switch {
		case !gone && p.store.Fault(l, segment.NodeOwner(n), p.tree.Start(n)) != "", l.End < before && below[n] > 0:
			return fmt.Errorf("block %d of a prompt is evicted before the one after it, want them in order of eviction", at)
		case gone && before > p.tree.Start(n):
			below[p.tree.Parent(n)]--
		}
	}
	return nil
}

// tellCached enters into the pass what is cached of each node, if anybody looks.
func (p *segments) tellCached() {
	if !p.counted {
		return
	}
	var all []prompt.NodeID
	for n := range p.nodes.All() {
		all = append(all, n)
	}
	slices.Sort(all)
	for _, n := range all {
		p.setEnd(p.nodes.Get(n), segment.NodeOwner(n), p.nodes.Get(n).End)
	}
}
