package sglang

import (
	"fmt"

	"github.com/replay-llm/replay/internal/heap"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang/radix"
)

// windows is the second pool of a model in which some layers attend to a window: the tokens of the first pool that these layers
// keep. Its fields have their zero values if no layer has a window.
type windows struct {
	core       *Core
	pool, free int // tokens, whole pages
	tree       *radix.Windows
	// due has running requests by the decode pass before which they may release tokens, and
	// by the epoch that was theirs.
	due heap.Heap[int64, int32, *request]
}

// windowed is the part of the second pool that a request has: its tokens from slid on, or from the end of those of the
// tree on.
type windowed struct {
	slid   int   // it has released what it held before
	locked int32 // the first page of the tree that its lock holds there
	branch int   // tokens cached in excess of what it could use, 0 none
	chunks int   // prefills it was in since it was admitted
}

// slideEvery is the number of tokens that decoding requests let pass out of the window before
// they give them back.
const slideEvery = 128

// WindowPages returns the pages of the pool of layers with a window: that share of the tokens of the first pool.
func WindowPages(tokens, page int, share float64) int { return int(float64(tokens)*share) / page }

// fitsWindows is Fits for the second pool, which holds at least the tokens of a request that the window has not passed.
// Its further tokens depend on the cache and on the instant of its retraction.
func fitsWindows(c *Config, input, output int) *scheduler.OversizeError {
	need := ceilTo(min(c.Window+1, input+max(1, output)-1), c.PageTokens)
	if c.Window == 0 || need <= c.WindowPages*c.PageTokens {
		return nil
	}
	pages := need/c.PageTokens*c.Pages/c.WindowPages + 1 // of the first pool, which the second has a share of
	return &scheduler.OversizeError{Input: input, Output: output, Blocks: max(pages, ceilTo(input+output, c.PageTokens)/c.PageTokens),
		Reason: fmt.Sprintf("needs %d tokens of layers with a window of %d, the engine has %d", need, c.Window, c.WindowPages*c.PageTokens)}
}

// startWindows makes the second pool.
func (w *windows) startWindows() {
	if w.core.Window == 0 {
		return
	}
	w.pool = w.core.WindowPages * w.core.PageTokens
	w.free = w.pool
	w.tree = w.core.pages.tree.AddWindows(w.core.Window, w.core.PageTokens)
}

// windowTokens returns what is free or evictable in the second pool.
func (w *windows) windowTokens() int { return w.free + w.tree.Unlocked*w.core.PageTokens }

// windowLeft returns the room in the second pool that is left by admitted requests.
func (w *windows) windowLeft(b *budget) int { return w.windowTokens() - b.window }

// windowNeed returns what a request may take of the second pool. It has that many prompt tokens to compute, at most limit in this
// pass, and then that many answer tokens.
func (w *windows) windowNeed(tokens, answers, limit int) int {
	return max(min(tokens, limit)-w.core.Window, 0) + min(tokens+answers, w.core.Window) + w.core.PageTokens
}

// limitByWindow returns how many prompt tokens of e the pass may compute as far as the second pool goes, 0 if none. A
// prompt that is too long for an empty pool is cut to the free room, and on an idle engine any prompt.
func (w *windows) limitByWindow(b *budget, f *flight, e *chunk) int {
	answers := min(max(0, e.maxOut-e.out), w.core.ClipNewTokens)
	need, left := w.windowNeed(w.core.pages.poolTokens(e.tokens), answers, b.chunk), w.windowLeft(b)
	if need < left {
		return b.chunk
	}
	cut := 0
	if need >= w.pool {
		cut = floorTo(max(0, left-w.windowNeed(0, answers, 0)), w.core.PageTokens)
	}
	if cut == 0 && w.core.isIdle(f) {
		cut = w.windowTokens()
	}
	return min(b.chunk, cut)
}

// slideWindow releases the tokens of r that a window ending at end has passed, and so has it
// every tokens more than when it last was asked.
func (w *windows) slideWindow(r *request, end, every int) {
	if end-w.core.Window < r.slid+every {
		return
	}
	r.slid = max(r.slid, r.prot)
	to := end - w.core.Window
	if w.core.pages.caching { // what is cached keeps a whole window
		to = end - w.keptTokens()
	}
	if to = floorTo(max(0, to), w.core.PageTokens); to > r.slid {
		w.free += to - r.slid
		r.slid = to
	}
}

// keptTokens returns the whole pages of a window, at least one.
func (w *windows) keptTokens() int {
	return w.core.pages.poolTokens(max(w.core.Window, w.core.PageTokens))
}

// slideChunks releases the tokens that windows have passed, of prompts that are computed in chunks on an engine without
// a cache, when no pass can read them.
func (w *windows) slideChunks(f *flight) {
	for i := range f.batch {
		e := &f.batch[i]
		switch {
		case w.core.pages.caching || e.chunks == 0:
		case !w.core.Overlap:
			w.slideWindow(e.request, e.before, 1)
		case e.chunks >= 2:
			w.slideWindow(e.request, e.before-w.core.ChunkTokens, 1)
		}
		e.chunks++
	}
}

// slideDecoding releases the tokens that windows have passed of the requests that decode in the planned pass.
func (w *windows) slideDecoding() {
	for len(w.due) > 0 && w.due[0].Key <= w.core.batch.planned {
		e := w.due.Pop()
		r := e.Value
		if e.Tie != r.epoch || r.place == notRunning {
			continue
		}
		w.slideWindow(r, r.InputTokens+w.core.batch.gainedBy(r)-1, slideEvery)
		w.awaitSlide(r, w.core.batch.planned+1)
	}
}

// awaitSlide enters r, which runs, into the line of requests that may release tokens, in pass first or later.
func (w *windows) awaitSlide(r *request, first int64) {
	end := r.slid + slideEvery + w.core.Window
	if r.slid >= r.prot { // before that the window has passed nothing
		end = max(end, r.slid+w.core.PageTokens+w.keptTokens())
	}
	w.due.Push(max(first, r.base+int64(end-r.stored)), r.epoch, r)
}

// ownWindow returns what r has of the second pool; stored is the number of tokens that it holds.
func (w *windows) ownWindow(r *request, stored int) int {
	return w.core.pages.poolTokens(stored) - max(r.slid, r.prot)
}

// findWindowed is findPrefix where layers have windows.
func (w *windows) findWindowed(r *request) int {
	pages, n, cached := w.tree.Match(&r.seq, w.core.pages.pagesOf(r.length()-1))
	if r.branch = 0; cached > pages {
		r.branch = int(cached) * w.core.PageTokens
	}
	w.core.pages.tree.Lock(n)
	r.locked = w.tree.Lock(n)
	r.node, r.prot = n, int(pages)*w.core.PageTokens
	return r.prot
}

// cacheWindowed is cachePages where layers have windows. The first time that more was cached
// than it could use, it is cached up to there, for later requests with the same beginning.
func (w *windows) cacheWindowed(r *request) {
	if !w.core.pages.caching {
		return
	}
	tokens, branches := w.cachedPart(r, r.reached)
	w.slideWindow(r, tokens-1, 1)
	if k := floorTo(tokens, w.core.PageTokens); k > 0 {
		own := w.ownWindow(r, k)
		n, m, taken := w.insertWindowed(r, k)
		w.core.pages.free += m - r.prot
		w.free += own - taken
		w.unlockNode(r)
		w.core.pages.tree.Lock(n)
		r.node, r.prot, r.locked = n, k, w.tree.Lock(n)
	}
	if branches {
		r.branch = 0
		w.slideWindow(r, r.reached-1, 1)
	}
}

// cachedPart returns how many of the first tokens of r are cached, and whether that is up to
// the end of a beginning shared with other requests.
func (w *windows) cachedPart(r *request, tokens int) (int, bool) {
	if r.branch > r.prot && r.branch <= tokens {
		return r.branch, true
	}
	return tokens, false
}

// insertWindowed caches the first tokens of r, and returns the node that ends there, how many
// tokens were cached before, and how many the tree has taken of r's in the second pool.
func (w *windows) insertWindowed(r *request, tokens int) (n int32, before, taken int) {
	m, n, t := w.tree.Insert(&r.seq, w.core.pages.pagesOf(tokens), w.core.pages.pagesOf(r.slid), w.core.pages.pagesOf(r.prot))
	return n, int(m) * w.core.PageTokens, int(t) * w.core.PageTokens
}

// releaseWindowed releases what r holds of both pools and the tree, as releasePages does.
func (w *windows) releaseWindowed(r *request, keep bool) {
	k, own := r.prot, w.ownWindow(r, r.stored)
	if keep && w.core.pages.caching {
		tokens, _ := w.cachedPart(r, r.stored)
		k = floorTo(tokens, w.core.PageTokens)
		_, m, taken := w.insertWindowed(r, k)
		w.core.pages.free += m - r.prot
		own -= taken
	}
	w.free += own
	w.core.pages.free += w.core.pages.poolTokens(r.stored) - k
	w.core.pages.dropPrefix(r)
	r.stored, r.reached, r.windowed = 0, 0, windowed{}
}

// unlockNode takes back the locks of r.
func (w *windows) unlockNode(r *request) {
	w.core.pages.tree.Unlock(r.node)
	if w.core.Window > 0 {
		w.tree.Unlock(r.node, r.locked)
	}
}

// evictWindowed evicts until wanted tokens are free in both pools, as far as it can.
func (w *windows) evictWindowed(wanted int) {
	if !w.core.pages.caching {
		return
	}
	if n := wanted - w.core.pages.free; n > 0 {
		w.core.pages.free += w.core.pages.tree.Evict(int(w.core.pages.pagesOf(w.core.pages.poolTokens(n)))) * w.core.PageTokens
		w.free += w.tree.TakeFreed() * w.core.PageTokens
	}
	if n := wanted - w.free; n > 0 {
		w.core.pages.free += w.tree.Evict(int(w.core.pages.pagesOf(w.core.pages.poolTokens(n)))) * w.core.PageTokens
		w.free += w.tree.TakeFreed() * w.core.PageTokens
	}
}
