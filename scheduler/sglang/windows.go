package sglang

import (
	"fmt"

	"github.com/replay-llm/replay/internal/heap"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang/radix"
)

// windows is the second pool of a model with windows in some layers. The second pool contains the tokens of the first
// pool that these layers keep. All fields are zero if no layer has a window.
type windows struct {
	core       *Core
	pool, free int // tokens, in whole pages
	tree       *radix.Windows
	// due contains running requests, ordered by the decode pass before which they may release tokens. Tie is the
	// epoch of the request when it was added.
	due heap.Heap[int64, int32, *request]
}

// windowed is the part of the second pool that a request has: its tokens from slid on, or from the end of its tokens
// in the tree on.
type windowed struct {
	slid   int   // tokens before slid were released
	locked int32 // the first page that the request's lock in the tree covers in the second pool
	branch int   // cached tokens if the request could not use all of them; 0: none
	chunks int   // number of prefills since the admission
}

// slideEvery is the minimum number of tokens outside of the window that a decoding request releases at once.
const slideEvery = 128

// WindowPages returns the number of pages in the pool of layers with a window: a share of the tokens of the first
// pool.
func WindowPages(tokens, page int, share float64) int { return int(float64(tokens)*share) / page }

// fitsWindows is Fits for the second pool, which must hold at least the tokens of a request in the window. The
// further need depends on the cache and on the time of a retraction.
func fitsWindows(c *Config, input, output int) *scheduler.OversizeError {
	need := ceilTo(min(c.Window+1, input+max(1, output)-1), c.PageTokens)
	if c.Window == 0 || need <= c.WindowPages*c.PageTokens {
		return nil
	}
	pages := need/c.PageTokens*c.Pages/c.WindowPages + 1 // pages of the first pool; the second pool is a share of these pages
	return &scheduler.OversizeError{Input: input, Output: output, Blocks: max(pages, ceilTo(input+output, c.PageTokens)/c.PageTokens),
		Reason: fmt.Sprintf("needs %d tokens of layers with a window of %d, the engine has %d", need, c.Window, c.WindowPages*c.PageTokens)}
}

// startWindows initializes the second pool.
func (w *windows) startWindows() {
	if w.core.Window == 0 {
		return
	}
	w.pool = w.core.WindowPages * w.core.PageTokens
	w.free = w.pool
	w.tree = w.core.pages.tree.AddWindows(w.core.Window, w.core.PageTokens)
}

// windowTokens returns the free and evictable tokens of the second pool.
func (w *windows) windowTokens() int { return w.free + w.tree.Unlocked*w.core.PageTokens }

// windowLeft returns the tokens of the second pool that admitted requests leave free.
func (w *windows) windowLeft(b *budget) int { return w.windowTokens() - b.window }

// windowNeed returns the maximum number of tokens of the second pool for a request with the given prompt tokens, of
// which at most limit are computed in this pass, and the given answer tokens.
func (w *windows) windowNeed(tokens, answers, limit int) int {
	return max(min(tokens, limit)-w.core.Window, 0) + min(tokens+answers, w.core.Window) + w.core.PageTokens
}

// limitByWindow returns how many prompt tokens of e the pass may compute within the second pool, or 0 if none. A
// prompt that does not fit in an empty pool is cut to the free tokens. On an idle engine, every prompt is cut to the
// free tokens.
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

// slideWindow releases the tokens of r before a window that ends at end, if they are at least every tokens more than
// at the previous release.
func (w *windows) slideWindow(r *request, end, every int) {
	if end-w.core.Window < r.slid+every {
		return
	}
	r.slid = max(r.slid, r.prot)
	to := end - w.core.Window
	if w.core.pages.caching { // cached tokens must include a whole window
		to = end - w.keptTokens()
	}
	if to = floorTo(max(0, to), w.core.PageTokens); to > r.slid {
		w.free += to - r.slid
		r.slid = to
	}
}

// keptTokens returns the size of a window in whole pages, at least one, in tokens.
func (w *windows) keptTokens() int {
	return w.core.pages.poolTokens(max(w.core.Window, w.core.PageTokens))
}

// slideChunks releases tokens before the windows of chunked prompts, on an engine without a cache. slideChunks
// releases tokens only if no pass in flight can read them.
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

// slideDecoding releases tokens before the windows of the requests that decode in the planned pass.
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

// awaitSlide adds the running request r to due, with the first decode pass, at least first, in which it may release
// tokens.
func (w *windows) awaitSlide(r *request, first int64) {
	end := r.slid + slideEvery + w.core.Window
	if r.slid >= r.prot { // shorter requests have no whole page outside of the window
		end = max(end, r.slid+w.core.PageTokens+w.keptTokens())
	}
	w.due.Push(max(first, r.base+int64(end-r.stored)), r.epoch, r)
}

// ownWindow returns the tokens that r has in the second pool; stored is its number of tokens with KV cache.
func (w *windows) ownWindow(r *request, stored int) int {
	return w.core.pages.poolTokens(stored) - max(r.slid, r.prot)
}

// findWindowed is findPrefix for models with windows.
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

// cacheWindowed is cachePages for models with windows. If more tokens were cached than r could use, the first call
// caches r up to the cached tokens, for later requests with the same prefix.
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

// cachedPart returns how many of the first tokens of r are to be cached, and whether they end at the end of a prefix
// shared with other requests.
func (w *windows) cachedPart(r *request, tokens int) (int, bool) {
	if r.branch > r.prot && r.branch <= tokens {
		return r.branch, true
	}
	return tokens, false
}

// insertWindowed caches the first tokens of r. insertWindowed returns the node that ends there and how many tokens
// were cached before. taken is the number of r's tokens in the second pool that now belong to the tree.
func (w *windows) insertWindowed(r *request, tokens int) (n int32, before, taken int) {
	m, n, t := w.tree.Insert(&r.seq, w.core.pages.pagesOf(tokens), w.core.pages.pagesOf(r.slid), w.core.pages.pagesOf(r.prot))
	return n, int(m) * w.core.PageTokens, int(t) * w.core.PageTokens
}

// releaseWindowed releases the memory of r in both pools and the tree, like releasePages.
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

// unlockNode releases the locks of r.
func (w *windows) unlockNode(r *request) {
	w.core.pages.tree.Unlock(r.node)
	if w.core.Window > 0 {
		w.tree.Unlock(r.node, r.locked)
	}
}

// evictWindowed evicts pages until wanted tokens are free in both pools, as far as possible.
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
