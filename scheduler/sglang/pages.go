package sglang

import "github.com/replay-llm/replay/scheduler/sglang/radix"

// evictableTokens returns the tokens of the tree that nobody holds.
func (c *Core) evictableTokens() int { return c.tree.UnlockedPages * c.PageTokens }

// evictTokens evicts until so many tokens are free, as far as it can.
func (c *Core) evictTokens(wanted int) {
	if c.Window > 0 {
		c.evictWindowed(wanted)
		return
	}
	if n := wanted - c.free; n > 0 && c.caching {
		c.free += c.tree.Evict((n+c.PageTokens-1)/c.PageTokens) * c.PageTokens
	}
}

// pagesOf returns the whole pages that the tree has of n tokens. To a drafter that reads hidden
// states a token is known by the one after it, so that the last is not.
func (c *Core) pagesOf(n int) int32 {
	if c.pairs {
		n = max(0, n-1)
	}
	return int32(n / c.PageTokens)
}

// poolTokens returns what n tokens take of the pool.
func (c *Core) poolTokens(n int) int { return ceilTo(n, c.PageTokens) }

// findPrefix looks up the first tokens of r, all but its last, locks those that are cached
// and returns their number.
func (c *Core) findPrefix(r *request) int {
	r.looked, r.found = r.length(), 0
	if !c.caching {
		return 0
	}
	if c.Window > 0 {
		return c.findWindowed(r)
	}
	if c.tiers != nil {
		return c.findTiered(r)
	}
	pages, n := c.tree.Match(&r.seq, c.pagesOf(r.length()-1))
	c.tree.Lock(n)
	r.node, r.prot = n, int(pages)*c.PageTokens
	r.found = r.prot
	return r.prot
}

// dropPrefix undoes findPrefix.
func (c *Core) dropPrefix(r *request) {
	if c.caching {
		c.unlockNode(r)
	}
	r.node, r.prot = radix.Root, 0
}

// cachePages caches the whole pages that r had when its prefill ended. Pages that are
// cached already are freed, and those taken.
func (c *Core) cachePages(r *request) {
	if c.Window > 0 {
		c.cacheWindowed(r)
		return
	}
	k := int(c.pagesOf(r.reached)) * c.PageTokens
	if !c.caching || k == 0 {
		return
	}
	m, n := c.insertPages(r, c.pagesOf(r.reached))
	c.free += int(m)*c.PageTokens - r.prot
	c.tree.Lock(n)
	c.tree.Unlock(r.node)
	r.node, r.prot = n, k
}

// insertPages caches the first pages of r and returns how many pages were cached before, and the node that ends there. What is new is split where the prompt ends,
// so that the answer can be evicted without it.
func (c *Core) insertPages(r *request, pages int32) (int32, int32) {
	prompt := c.pagesOf(r.InputTokens)
	if c.tiers != nil {
		all, m, n := c.tree.InsertTiers(&r.seq, pages, r.counted)
		r.counted = max(r.counted, pages)
		if all < prompt && prompt < pages {
			c.tree.MatchTiers(&r.seq, prompt)
		}
		return m, n
	}
	m, n := c.tree.Insert(&r.seq, pages)
	if m < prompt && prompt < pages {
		c.tree.Match(&r.seq, prompt)
	}
	if c.Eviction.Policy != radix.LRU {
		c.tree.CountInsert(n, radix.Visit{Counted: r.counted, Priority: int64(r.Priority), Prompt: prompt})
		r.counted = max(r.counted, pages)
	}
	return m, n
}

// releasePages gives back what r, which does not run, holds of the pool and the tree;
// with keep it stays cached.
func (c *Core) releasePages(r *request, keep bool) {
	if c.Window > 0 {
		c.releaseWindowed(r, keep)
		return
	}
	k := r.prot
	if keep && c.caching {
		pages := c.pagesOf(min(r.stored, r.InputTokens+r.asked()))
		k = int(pages) * c.PageTokens
		m, _ := c.insertPages(r, pages)
		c.free += int(m)*c.PageTokens - r.prot
	}
	c.free += c.heldTokens(r) - k
	c.dropPrefix(r)
	r.stored, r.reached, r.alloc, r.counted = 0, 0, 0, 0
}

// freeTokens returns what a token of every layer may be put into.
func (c *Core) freeTokens() int {
	if c.Window > 0 {
		return min(c.free, c.win.free)
	}
	return c.free
}

// takeTokens takes so many, whole pages, out of the pool; with layers that have a window, out
// of both.
func (c *Core) takeTokens(n int) {
	c.free -= n
	if c.Window > 0 {
		c.win.free -= n
	}
}

// touchPrefix returns how many of the first pages pages of s a request could use, which it
// makes young.
func (c *Core) touchPrefix(s *radix.Sequence, pages int32) (usable int32) {
	if c.Window > 0 {
		usable, _, _ = c.win.tree.Match(s, pages)
		return usable
	}
	if c.tiers != nil {
		return c.tiers.match(s, pages).Device
	}
	usable, _ = c.tree.Match(s, pages)
	return usable
}
