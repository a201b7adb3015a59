package sglang

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang/radix"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Cache returns the content of the radix cache. Pages that requests have not inserted yet are not included.
func (c *Core) Cache() scheduler.Cache {
	out := scheduler.Cache{Decodes: c.decodesUnlogged(), Attempts: c.queue.attempts % refreshEvery}
	owners := make(map[sim.RequestID]int32)
	for _, i := range c.pages.tree.ByAge() {
		n := c.pages.tree.At(i)
		b := scheduler.CachedBlocks{Node: prompt.None, From: n.From, To: n.To}
		shared := n.Seq.Full
		if n.Seq.Seed > 0 {
			shared = 0
		}
		if n.To > shared {
			if owners[n.Seq.Owner] == 0 {
				owners[n.Seq.Owner] = int32(len(owners)) + 1
			}
			b.Own, b.Shared = owners[n.Seq.Owner], shared
		}
		if last := min(shared, n.To); last > 0 {
			b.Node = n.Seq.Nodes[(last-1)/c.pages.tree.PerNode]
		}
		out.Blocks = append(out.Blocks, b)
	}
	return out
}

// Warm fills the cache of a new core.
func (c *Core) Warm(from *scheduler.Cache, pass *scheduler.Pass) error {
	if !c.pages.caching || c.Window > 0 || c.tiers != nil || c.pages.pairs || c.Eviction.Policy != radix.LRU {
		return errors.New("only the radix cache of an SGLang engine on the device alone, under lru, can be filled")
	}
	all := make([]radix.Stretch, len(from.Blocks))
	for i := range from.Blocks {
		b := &from.Blocks[i]
		if b.Copy > 0 || b.Blank || b.Node == prompt.None && b.Own == 0 {
			return &scheduler.CacheError{Index: i, Reason: "blocks without a place in a radix tree, must be of a prompt or of an own sequence"}
		}
		s := radix.Sequence{Nodes: c.Tree.PathTo(b.Node), Full: b.To}
		if b.Own > 0 {
			s.Full, s.Owner = b.Shared, sim.RequestID(math.MaxInt32-b.Own)
		}
		s.Prompt = s.Full * int32(c.PageTokens)
		all[i] = radix.Stretch{Seq: s, From: b.From, To: b.To}
	}
	watch := c.pages.tree.Watch
	c.pages.tree.Watch = nil
	if i, err := c.pages.tree.Fill(all); err != nil {
		return &scheduler.CacheError{Index: i, Reason: err.Error()}
	}
	if excess := c.pages.tree.Pages - c.Pages; excess > 0 {
		c.pages.tree.Evict(excess)
	}
	c.pages.tree.Watch = watch
	c.pages.free -= c.pages.tree.Pages * c.PageTokens
	c.queue.attempts, c.batch.doneMixed = from.Attempts, -int64(from.Decodes)
	pass.Reset(0)
	if watch != nil {
		c.reportStored(watch)
	}
	c.record.publish(pass)
	return nil
}

// reportStored reports all nodes of the tree to a watcher as stored, parents first.
func (c *Core) reportStored(watch radix.Watcher) {
	var all []int32
	for n := range c.pages.tree.All() {
		all = append(all, n)
	}
	slices.SortStableFunc(all, func(a, b int32) int { return cmp.Compare(c.pages.tree.At(a).From, c.pages.tree.At(b).From) })
	for _, n := range all {
		watch.Stored(c.pages.tree, n)
	}
}
