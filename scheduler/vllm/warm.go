package vllm

import (
	"errors"
	"fmt"
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/vllm/segment"
	"github.com/replay-llm/replay/sim/prompt"
)

// Cache returns the content of the prefix cache, assuming that all requests leave now. Requests with kept blocks
// leave first, then running requests in order of admission.
func (c *Core) Cache() scheduler.Cache {
	p, ok := c.pool.(*segments)
	if !ok {
		return scheduler.Cache{}
	}
	l := segment.Lister{Store: &p.store, Tree: p.tree, Bottom: prompt.None}
	for i := p.store.Oldest; i != segment.None; i = p.store.At(i).Newer {
		l.Add(i)
	}
	left := make([]int32, len(p.store.All)) // number of holders that have left
	for _, leaving := range [...][]slot{c.kept, c.running} {
		for _, s := range leaving {
			for _, h := range slices.Backward(c.requests[s].holdings) {
				for _, i := range slices.Backward(p.store.AppendPieces(nil, h)) {
					if left[i]++; left[i] == p.store.At(i).Holders {
						l.Add(i)
					}
				}
			}
		}
	}
	return scheduler.Cache{Blocks: l.All}
}

// Warm fills the cache of a new core.
func (c *Core) Warm(from *scheduler.Cache, pass *scheduler.Pass) error {
	p, ok := c.pool.(*segments)
	if !ok || !c.cfg.PrefixCaching {
		return errors.New("only the prefix cache of a vLLM engine without host memory and without windows in its layers can be filled")
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
	c.cold = false // the engine is not fresh any more
	pass.Reset(0)
	c.events.BeginPass(pass)
	p.recordCached()
	return nil
}

// fill adds a segment for each entry, in order of eviction, and evicts blocks that exceed the capacity.
func (p *segments) fill(all []scheduler.CachedBlocks) error {
	capacity, total := p.usable, 0
	fresh := newSegments(p.core)
	p.store, p.nodes, p.oneQueue = fresh.store, fresh.nodes, fresh.oneQueue
	found := segment.Pieces{Store: &p.store, Nodes: &p.nodes, Tree: p.tree}
	counted := p.counted
	p.counted, p.cached = false, 0
	for i := range all {
		b := &all[i]
		total += int(b.To - b.From)
		switch {
		case b.Own > 0:
			return &scheduler.CacheError{Index: i, Reason: "blocks of an own sequence, must be without a prompt in a cache of vLLM"}
		case b.Blank && !p.oneQueue:
			return &scheduler.CacheError{Index: i, Reason: "blank blocks, which stand in no line by this engine's rules"}
		case b.Blank:
			p.store.PushUnnamed(b.To - b.From)
			continue
		case b.Node == prompt.None:
			p.store.Push(p.store.Add(segment.Segment{Owner: segment.Gone, Hi: b.To - b.From, Below: segment.None, Above: segment.None}))
		default:
			found.Add(i, b)
		}
		p.cached += int(b.To - b.From)
	}
	if err := found.Link(); err != nil {
		return err
	}
	for total > capacity && capacity > 0 {
		total -= p.evictBlocks(int32(total - capacity))
	}
	p.blank, p.free, p.counted = max(0, capacity-total), capacity, counted
	return nil
}

// tryEviction evicts all blocks. tryEviction returns an error if a block would be evicted before a later block of its
// prompt.
func (p *segments) tryEviction() error {
	below := make(map[prompt.NodeID]int) // number of child nodes with cached blocks, by node
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
			return fmt.Errorf("block %d of a prompt is evicted before the one after it, must be in order of eviction", at)
		case gone && before > p.tree.Start(n):
			below[p.tree.Parent(n)]--
		}
	}
	return nil
}

// recordCached records the cached blocks of each node in the pass, if an observer reads them.
func (p *segments) recordCached() {
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
