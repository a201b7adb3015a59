package sglang

import (
	"fmt"

	"github.com/replay-llm/replay/internal/heap"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang/radix"
)

// windows is the second pool of a model some of whose layers attend to a window: what these
// layers keep of the tokens that the first pool has. Its fields are those of the zero value
// where no layer has one.
type windows struct {
	pool, free int // tokens, whole pages
	tree       *radix.Windows
	// due has running requests by the decode pass before which they may give back tokens, and
	// by the epoch that was theirs.
	due heap.Heap[int64, int32, *request]
}

// windowed is what a request has of the second pool: its own tokens from slid on, or from
// where those of the tree end.
type windowed struct {
	slid   int   // it has given back what it held before
	locked int32 // the first page of the tree that its lock holds there
	branch int   // tokens that were cached beyond what it could use, 0 none
	chunks int   // prefills it was in since it was admitted
}

// slideEvery is the number of tokens that decoding requests let pass out of the window before
// they give them back.
const slideEvery = 128

// WindowPages returns the pages of the pool of layers with a window, beside one of so many
// tokens: that share of these.
func WindowPages(tokens, page int, share float64) int { return int(float64(tokens)*share) / page }

// fitsWindows is Fits for the second pool, which holds at least the tokens of a request that the
// window has not passed. What it holds more depends on what is cached and when it was retracted.
func fitsWindows(c *Config, input, output int) *scheduler.OversizeError {
	need := ceilTo(min(c.Window+1, input+max(1, output)-1), c.PageTokens)
	if c.Window == 0 || need <= c.WindowPages*c.PageTokens {
		return nil
	}
	pages := need/c.PageTokens*c.Pages/c.WindowPages + 1 // of the first pool, whose share the second is
	return &scheduler.OversizeError{Input: input, Output: output, Blocks: max(pages, ceilTo(input+output, c.PageTokens)/c.PageTokens),
		Reason: fmt.Sprintf("needs %d tokens of layers with a window of %d, the engine has %d", need, c.Window, c.WindowPages*c.PageTokens)}
}

// startWindows makes the second pool.
func (c *Core) startWindows() {
	if c.Window == 0 {
		return
	}
	c.win.pool = c.WindowPages * c.PageTokens
	c.win.free = c.win.pool
	c.win.tree = c.tree.AddWindows(c.Window, c.PageTokens)
}

// windowTokens returns what is free or evictable in the second pool.
func (c *Core) windowTokens() int { return c.win.free + c.win.tree.Unlocked*c.PageTokens }

// windowLeft returns the room in the second pool beyond what was admitted.
func (c *Core) windowLeft(b *budget) int { return c.windowTokens() - b.window }

// windowNeed returns what a request may take of the second pool, of which so many tokens, of
// at most limit in this pass, and then so many answers are to be computed.
func (c *Core) windowNeed(tokens, answers, limit int) int {
	return max(min(tokens, limit)-c.Window, 0) + min(tokens+answers, c.Window) + c.PageTokens
}

// limitByWindow returns how many prompt tokens of e the pass may compute as far as the second
// pool goes, 0 if none. A prompt that is too long for an empty pool is cut to what there is
// room for, and on an idle engine any.
func (c *Core) limitByWindow(b *budget, f *flight, e *chunk) int {
	answers := min(max(0, e.maxOut-e.out), c.ClipNewTokens)
	need, left := c.windowNeed(c.poolTokens(e.tokens), answers, b.chunk), c.windowLeft(b)
	if need < left {
		return b.chunk
	}
	cut := 0
	if need >= c.win.pool {
		cut = floorTo(max(0, left-c.windowNeed(0, answers, 0)), c.PageTokens)
	}
	if cut == 0 && c.isIdle(f) {
		cut = c.windowTokens()
	}
	return min(b.chunk, cut)
}

// slideWindow gives back the tokens of r that a window ending at end has passed, and so has it
// every tokens more than when it last was asked.
func (c *Core) slideWindow(r *request, end, every int) {
	if end-c.Window < r.slid+every {
		return
	}
	r.slid = max(r.slid, r.prot)
	to := end - c.Window
	if c.caching { // what is cached keeps a whole window
		to = end - c.keptTokens()
	}
	if to = floorTo(max(0, to), c.PageTokens); to > r.slid {
		c.win.free += to - r.slid
		r.slid = to
	}
}

// keptTokens returns the whole pages of a window, at least one.
func (c *Core) keptTokens() int { return c.poolTokens(max(c.Window, c.PageTokens)) }

// slideChunks gives back what windows have passed of prompts that are computed in chunks, on an
// engine without a cache; it waits until nobody can read it.
func (c *Core) slideChunks(f *flight) {
	for i := range f.batch {
		e := &f.batch[i]
		switch {
		case c.caching || e.chunks == 0:
		case !c.Overlap:
			c.slideWindow(e.request, e.before, 1)
		case e.chunks >= 2:
			c.slideWindow(e.request, e.before-c.ChunkTokens, 1)
		}
		e.chunks++
	}
}

// slideDecoding gives back what windows have passed of those who decode in the pass that is
// planned.
func (c *Core) slideDecoding() {
	for len(c.win.due) > 0 && c.win.due[0].Key <= c.planned {
		e := c.win.due.Pop()
		r := e.Value
		if e.Tie != r.epoch || r.place == notRunning {
			continue
		}
		c.slideWindow(r, r.InputTokens+c.gainedBy(r)-1, slideEvery)
		c.awaitSlide(r, c.planned+1)
	}
}

// awaitSlide enters r, which runs, into the line of those that may give back tokens, in pass
// first or later.
func (c *Core) awaitSlide(r *request, first int64) {
	end := r.slid + slideEvery + c.Window
	if r.slid >= r.prot { // before that the window has passed nothing
		end = max(end, r.slid+c.PageTokens+c.keptTokens())
	}
	c.win.due.Push(max(first, r.base+int64(end-r.stored)), r.epoch, r)
}

// ownWindow returns what r, which holds so many tokens, has of the second pool.
func (c *Core) ownWindow(r *request, stored int) int {
	return c.poolTokens(stored) - max(r.slid, r.prot)
}

// findWindowed is findPrefix where layers have windows.
func (c *Core) findWindowed(r *request) int {
	pages, n, cached := c.win.tree.Match(&r.seq, c.pagesOf(r.length()-1))
	if r.branch = 0; cached > pages {
		r.branch = int(cached) * c.PageTokens
	}
	c.tree.Lock(n)
	r.locked = c.win.tree.Lock(n)
	r.node, r.prot = n, int(pages)*c.PageTokens
	return r.prot
}

// cacheWindowed is cachePages where layers have windows. The first time that more was cached
// than it could use, it is cached up to there, for others that begin alike.
func (c *Core) cacheWindowed(r *request) {
	if !c.caching {
		return
	}
	tokens, branches := c.cachedPart(r, r.reached)
	c.slideWindow(r, tokens-1, 1)
	if k := floorTo(tokens, c.PageTokens); k > 0 {
		own := c.ownWindow(r, k)
		n, m, taken := c.insertWindowed(r, k)
		c.free += m - r.prot
		c.win.free += own - taken
		c.unlockNode(r)
		c.tree.Lock(n)
		r.node, r.prot, r.locked = n, k, c.win.tree.Lock(n)
	}
	if branches {
		r.branch = 0
		c.slideWindow(r, r.reached-1, 1)
	}
}

// cachedPart returns how many of the first tokens of r are cached, and whether that is up to
// where others begin alike.
func (c *Core) cachedPart(r *request, tokens int) (int, bool) {
	if r.branch > r.prot && r.branch <= tokens {
		return r.branch, true
	}
	return tokens, false
}

// insertWindowed caches the first tokens of r, and returns the node that ends there, how many
// tokens were cached before, and how many the tree has taken of r's in the second pool.
func (c *Core) insertWindowed(r *request, tokens int) (n int32, before, taken int) {
	m, n, t := c.win.tree.Insert(&r.seq, c.pagesOf(tokens), c.pagesOf(r.slid), c.pagesOf(r.prot))
	return n, int(m) * c.PageTokens, int(t) * c.PageTokens
}

// releaseWindowed gives back what r holds of both pools and the tree, as releasePages does.
func (c *Core) releaseWindowed(r *request, keep bool) {
	k, own := r.prot, c.ownWindow(r, r.stored)
	if keep && c.caching {
		tokens, _ := c.cachedPart(r, r.stored)
		k = floorTo(tokens, c.PageTokens)
		_, m, taken := c.insertWindowed(r, k)
		c.free += m - r.prot
		own -= taken
	}
	c.win.free += own
	c.free += c.poolTokens(r.stored) - k
	c.dropPrefix(r)
	r.stored, r.reached, r.windowed = 0, 0, windowed{}
}

// unlockNode takes back the locks of r.
func (c *Core) unlockNode(r *request) {
	c.tree.Unlock(r.node)
	if c.Window > 0 {
		c.win.tree.Unlock(r.node, r.locked)
	}
}

// evictWindowed evicts until so many tokens are free in both pools, as far as it can.
func (c *Core) evictWindowed(wanted int) {
	if !c.caching {
		return
	}
	if n := wanted - c.free; n > 0 {
		c.free += c.tree.Evict(int(c.pagesOf(c.poolTokens(n)))) * c.PageTokens
		c.win.free += c.win.tree.TakeFreed() * c.PageTokens
	}
	if n := wanted - c.win.free; n > 0 {
		c.free += c.win.tree.Evict(int(c.pagesOf(c.poolTokens(n)))) * c.PageTokens
		c.win.free += c.win.tree.TakeFreed() * c.PageTokens
	}
}
