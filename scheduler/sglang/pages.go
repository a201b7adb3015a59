package sglang

import "github.com/replay-llm/replay/scheduler/sglang/radix"

// pages is the token pool and the prefix cache in it.
type pages struct {
	core    *Core
	pool    int // tokens
	free    int // of them, whole pages
	caching bool
	pairs   bool // the tree knows a token by the one after it
	tree    *radix.Tree
}

// evictableTokens returns the free tokens of the tree.
func (g *pages) evictableTokens() int { return g.tree.UnlockedPages * g.core.PageTokens }

// evictTokens evicts until n tokens are free, as far as it can.
func (g *pages) evictTokens(wanted int) {
	if g.core.Window > 0 {
		g.core.win.evictWindowed(wanted)
		return
	}
	if n := wanted - g.free; n > 0 && g.caching {
		g.free += g.tree.Evict((n+g.core.PageTokens-1)/g.core.PageTokens) * g.core.PageTokens
	}
}

// pagesOf returns the whole pages that the tree has of n tokens. To a drafter that reads hidden
// states a token is known by the one after it, so that the last is not.
func (g *pages) pagesOf(n int) int32 {
	if g.pairs {
		n = max(0, n-1)
	}
	return int32(n / g.core.PageTokens)
}

// poolTokens returns what n tokens take of the pool.
func (g *pages) poolTokens(n int) int { return ceilTo(n, g.core.PageTokens) }

// findPrefix looks up the first tokens of r, all but its last, locks the cached ones
// and returns their number.
func (g *pages) findPrefix(r *request) int {
	r.looked, r.found = r.length(), 0
	if !g.caching {
		return 0
	}
	if g.core.Window > 0 {
		return g.core.win.findWindowed(r)
	}
	if g.core.tiers != nil {
		return g.core.tiers.findTiered(r)
	}
	pages, n := g.tree.Match(&r.seq, g.pagesOf(r.length()-1))
	g.tree.Lock(n)
	r.node, r.prot = n, int(pages)*g.core.PageTokens
	r.found = r.prot
	return r.prot
}

// dropPrefix undoes findPrefix.
func (g *pages) dropPrefix(r *request) {
	if g.caching {
		g.core.win.unlockNode(r)
	}
	r.node, r.prot = radix.Root, 0
}

// cachePages caches the whole pages that r had when its prefill ended. Pages that are
// cached already are freed, and those taken.
func (g *pages) cachePages(r *request) {
	if g.core.Window > 0 {
		g.core.win.cacheWindowed(r)
		return
	}
	k := int(g.pagesOf(r.reached)) * g.core.PageTokens
	if !g.caching || k == 0 {
		return
	}
	m, n := g.insertPages(r, g.pagesOf(r.reached))
	g.free += int(m)*g.core.PageTokens - r.prot
	g.tree.Lock(n)
	g.tree.Unlock(r.node)
	r.node, r.prot = n, k
}

// insertPages caches the first pages of r and returns how many pages were cached before, and the node that ends there. What is new is split where the prompt ends,
// so that the answer can be evicted without it.
func (g *pages) insertPages(r *request, pages int32) (int32, int32) {
	prompt := g.pagesOf(r.InputTokens)
	if g.core.tiers != nil {
		all, m, n := g.tree.InsertTiers(&r.seq, pages, r.counted)
		r.counted = max(r.counted, pages)
		if all < prompt && prompt < pages {
			g.tree.MatchTiers(&r.seq, prompt)
		}
		return m, n
	}
	m, n := g.tree.Insert(&r.seq, pages)
	if m < prompt && prompt < pages {
		g.tree.Match(&r.seq, prompt)
	}
	if g.core.Eviction.Policy != radix.LRU {
		g.tree.CountInsert(n, radix.Visit{Counted: r.counted, Priority: int64(r.Priority), Prompt: prompt})
		r.counted = max(r.counted, pages)
	}
	return m, n
}

// releasePages releases what r, which does not run, holds of the pool and the tree;
// with keep it stays cached.
func (g *pages) releasePages(r *request, keep bool) {
	if g.core.Window > 0 {
		g.core.win.releaseWindowed(r, keep)
		return
	}
	k := r.prot
	if keep && g.caching {
		pages := g.pagesOf(min(r.stored, r.InputTokens+r.asked()))
		k = int(pages) * g.core.PageTokens
		m, _ := g.insertPages(r, pages)
		g.free += int(m)*g.core.PageTokens - r.prot
	}
	g.free += g.core.drafts.heldTokens(r) - k
	g.dropPrefix(r)
	r.stored, r.reached, r.alloc, r.counted = 0, 0, 0, 0
}

// freeTokens returns what a token of every layer may be put into.
func (g *pages) freeTokens() int {
	if g.core.Window > 0 {
		return min(g.free, g.core.win.free)
	}
	return g.free
}

// takeTokens takes n tokens, whole pages, out of the pool; with layers that have a window, out
// of both.
func (g *pages) takeTokens(n int) {
	g.free -= n
	if g.core.Window > 0 {
		g.core.win.free -= n
	}
}

// touchPrefix returns how many of the first pages pages of s a request could use, which it
// makes young.
func (g *pages) touchPrefix(s *radix.Sequence, pages int32) (usable int32) {
	if g.core.Window > 0 {
		usable, _, _ = g.core.win.tree.Match(s, pages)
		return usable
	}
	if g.core.tiers != nil {
		return g.core.tiers.match(s, pages).Device
	}
	usable, _ = g.tree.Match(s, pages)
	return usable
}
