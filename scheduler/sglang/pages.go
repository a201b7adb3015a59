package sglang

import "github.com/replay-llm/replay/scheduler/sglang/radix"

// pages is the token pool and its prefix cache.
type pages struct {
	core    *Core
	pool    int // size of the pool in tokens
	free    int // free tokens, in whole pages
	caching bool
	pairs   bool // the tree identifies a token by the pair of it and the next token
	tree    *radix.Tree
}

// evictableTokens returns the tokens of unlocked pages in the tree.
func (g *pages) evictableTokens() int { return g.tree.UnlockedPages * g.core.PageTokens }

// evictTokens evicts pages until wanted tokens are free, as far as possible.
func (g *pages) evictTokens(wanted int) {
	if g.core.Window > 0 {
		g.core.win.evictWindowed(wanted)
		return
	}
	if n := wanted - g.free; n > 0 && g.caching {
		g.free += g.tree.Evict((n+g.core.PageTokens-1)/g.core.PageTokens) * g.core.PageTokens
	}
}

// pagesOf returns the number of whole pages in the tree for n tokens. For a drafter that reads hidden states, a token
// is identified by the next token, so that the last token does not count.
func (g *pages) pagesOf(n int) int32 {
	if g.pairs {
		n = max(0, n-1)
	}
	return int32(n / g.core.PageTokens)
}

// poolTokens returns the tokens of the pool that n tokens take.
func (g *pages) poolTokens(n int) int { return ceilTo(n, g.core.PageTokens) }

// findPrefix looks up all tokens of r but the last, locks the cached ones and returns their number.
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

// dropPrefix reverts findPrefix.
func (g *pages) dropPrefix(r *request) {
	if g.caching {
		g.core.win.unlockNode(r)
	}
	r.node, r.prot = radix.Root, 0
}

// cachePages caches the whole pages that r had when its prefill was planned. If pages are cached already, r frees its
// own copies and uses the cached pages.
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

// insertPages caches the first pages of r. insertPages returns how many of these pages were cached before, and the
// node that ends after them. A new node is split at the end of the prompt, so that the answer can be evicted
// separately.
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

// releasePages releases the memory of r, which does not run, in the pool and the tree. With keep, the pages of r stay
// cached.
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

// freeTokens returns the number of free tokens that are available to all layers.
func (g *pages) freeTokens() int {
	if g.core.Window > 0 {
		return min(g.free, g.core.win.free)
	}
	return g.free
}

// takeTokens allocates n tokens, in whole pages, from the pool, and also from the pool of layers with a window if
// there is one.
func (g *pages) takeTokens(n int) {
	g.free -= n
	if g.core.Window > 0 {
		g.core.win.free -= n
	}
}

// touchPrefix returns how many of the first pages of s a request could use, and renews their age.
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
