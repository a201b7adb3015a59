package sglang

import (
	"cmp"
	"slices"

	"github.com/replay-llm/replay/internal/heap"
)

// batch is the running requests. A decode pass does not update each request: decode passes are only counted.
type batch struct {
	core    *Core
	running []*request // each request stores its index
	joined  []visit    // started to run since the latest decode pass was planned
	ending  []*request // requests with their last token in flight, or in the pass that ends
	totals  totals
	planned int64 // number of planned decode passes
	done    int64 // number of finished decode passes
	// doneMixed is the number of finished decode passes that also computed prompts.
	doneMixed int64
	// agenda contains running requests, ordered by the decode pass of their last token. Tie is the epoch of the
	// request when it was added.
	agenda heap.Heap[int64, int32, *request]
}

// totals are sums over the running requests.
type totals struct {
	length int     // total length of the requests in tokens
	phase  []int32 // number of requests by the decode pass, modulo the page size, that needs a new page for their next token
}

// noteEnding finds the requests with a last token in one of the first passes decode passes. Requests with a last
// token in flight stay in the list until a decode pass is planned without them, or until that pass has ended.
func (b *batch) noteEnding(passes int64) {
	if b.core.Speculation != nil {
		b.core.drafts.noteDraftsEnding()
		return
	}
	from := len(b.ending)
	for len(b.agenda) > 0 && b.agenda[0].Key <= passes {
		e := b.agenda.Pop()
		if r := e.Value; e.Tie == r.epoch {
			r.ending = true
			b.ending = append(b.ending, r)
		}
	}
	b.sortEnding(from)
}

// stopEnding removes requests with their last token in flight from the running requests.
func (b *batch) stopEnding() {
	if len(b.ending) == 0 {
		return
	}
	for _, r := range b.ending {
		b.stopRunning(r)
	}
	b.closeGaps()
	b.core.queue.full = false
}

// addTokens adds a token for each running request to the pass. The pool has room for the added tokens.
func (b *batch) addTokens(f *flight) {
	if b.core.Speculation != nil {
		b.core.drafts.addDrafts(f)
		return
	}
	n := len(b.running)
	if b.core.Window > 0 {
		b.core.win.slideDecoding()
	}
	if b.core.PageTokens > 1 {
		b.core.pages.evictTokens(n * b.core.PageTokens)
	}
	b.core.pages.takeTokens(b.countCrossing() * b.core.PageTokens)
	b.planned++
	b.totals.length += n
	f.decodes, f.length = n, b.totals.length
	f.joined, b.joined = append(f.joined[:0], b.joined...), b.joined[:0]
}

// startRunning appends r to the running requests.
func (b *batch) startRunning(r *request) {
	r.base, r.place = b.planned, len(b.running)
	b.running = append(b.running, r)
	if b.core.Speculation != nil {
		r.sampled = r.stored - r.InputTokens + 1 // including the token of the prefill, which may be in flight
		return
	}
	b.joined = append(b.joined, visit{r, r.epoch})
	b.totals.length += r.stored
	b.totals.phase[b.phaseOf(r)]++
	gained := r.stored - r.InputTokens + 1 // including the token of the prefill, which may be in flight
	b.agenda.Push(b.planned+int64(r.asked()-gained), r.epoch, r)
	if b.core.Window > 0 {
		b.core.win.awaitSlide(r, b.planned+1)
	}
}

// stopRunning removes r from the totals and clears its entry in the list of running requests; the caller closes the
// gap.
func (b *batch) stopRunning(r *request) {
	if r.place == notRunning {
		return
	}
	if b.core.Speculation == nil {
		b.writeGains(r)
		b.totals.length -= r.stored
		b.totals.phase[b.phaseOf(r)]--
	}
	b.running[r.place] = nil
	r.place = notRunning
}

// moveBehind moves the first n running requests to the end of the list.
func (b *batch) moveBehind(n int) {
	slices.Reverse(b.running[:n])
	slices.Reverse(b.running[n:])
	slices.Reverse(b.running)
	for i, r := range b.running {
		r.place = i
	}
}

// closeGaps removes the empty entries from the list of running requests.
func (b *batch) closeGaps() {
	kept := 0
	for _, r := range b.running {
		if r != nil {
			r.place = kept
			b.running[kept] = r
			kept++
		}
	}
	clear(b.running[kept:])
	b.running = b.running[:kept]
}

// writeGains adds to the running request r the tokens that it gained since decode pass base.
func (b *batch) writeGains(r *request) {
	r.out, r.lastToken = b.gainedBy(r), b.core.lastTokenOf(r)
	r.stored = b.lengthOf(r)
	r.base = b.planned
}

// lengthOf returns the number of tokens that a running request has in the pool, including tokens in flight.
func (b *batch) lengthOf(r *request) int { return r.stored + int(b.planned-r.base) }

// gainedBy returns the number of tokens that a running request has gained, without tokens in flight.
func (b *batch) gainedBy(r *request) int { return r.out + int(max(0, b.done-r.base)) }

// phaseOf returns the index of r in totals.phase, which is constant while r runs.
func (b *batch) phaseOf(r *request) int {
	n := int64(b.core.PageTokens)
	return int(((r.base-int64(r.stored))%n + n) % n)
}

// countCrossing returns the number of running requests with a next token that needs a page.
func (b *batch) countCrossing() int {
	return int(b.totals.phase[b.planned%int64(b.core.PageTokens)])
}

// sortEnding sorts the requests of ending, starting at index from, in the order of running requests.
func (b *batch) sortEnding(from int) {
	if all := b.ending[from:]; len(all) > 1 {
		slices.SortFunc(all, func(a, b *request) int { return cmp.Compare(a.place, b.place) })
	}
}

// isShort reports whether the pool lacks room for the next tokens of all running requests, even after eviction.
func (b *batch) isShort() bool {
	need := b.core.drafts.countMissing()
	b.core.pages.evictTokens(need)
	return b.core.pages.freeTokens() < need
}
