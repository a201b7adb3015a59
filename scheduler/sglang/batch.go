package sglang

import (
	"cmp"
	"slices"

	"github.com/replay-llm/replay/internal/heap"
)

// batch is the requests that run. A decode pass touches none of them: passes are counted.
type batch struct {
	core    *Core
	running []*request // each knows its place
	joined  []visit    // began to run since the latest decode pass was planned
	ending  []*request // their last token is in flight, or due in the pass that ends
	totals  totals
	planned int64 // decode passes planned
	done    int64 // decode passes that have ended
	// doneMixed is those of them that computed prompts as well.
	doneMixed int64
	// agenda has running requests by the decode pass that gives them their last token,
	// and by the epoch that was theirs.
	agenda heap.Heap[int64, int32, *request]
}

// totals are sums over the running requests.
type totals struct {
	length int     // tokens
	phase  []int32 // by (decode passes planned mod page): requests with a next token that needs a page
}

// noteEnding finds the requests with a last token in one of the first passes decode passes. They keep their places
// until tokens are planned without them, or that pass has ended.
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

// stopEnding removes requests with their last token in flight from the line.
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

// addTokens adds a token for each running request to the pass, for which there is room.
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

// startRunning puts r into the line of running requests.
func (b *batch) startRunning(r *request) {
	r.base, r.place = b.planned, len(b.running)
	b.running = append(b.running, r)
	if b.core.Speculation != nil {
		r.sampled = r.stored - r.InputTokens + 1 // with the token of the prefill, which may be in flight
		return
	}
	b.joined = append(b.joined, visit{r, r.epoch})
	b.totals.length += r.stored
	b.totals.phase[b.phaseOf(r)]++
	gained := r.stored - r.InputTokens + 1 // with the token of the prefill, which may be in flight
	b.agenda.Push(b.planned+int64(r.asked()-gained), r.epoch, r)
	if b.core.Window > 0 {
		b.core.win.awaitSlide(r, b.planned+1)
	}
}

// stopRunning takes r out of the sums over running requests; the caller takes it out of
// the line.
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

// moveBehind moves the first n running requests behind the rest.
func (b *batch) moveBehind(n int) {
	slices.Reverse(b.running[:n])
	slices.Reverse(b.running[n:])
	slices.Reverse(b.running)
	for i, r := range b.running {
		r.place = i
	}
}

// closeGaps closes the gaps that requests left in the line.
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

// writeGains adds to r, which runs, what it has got since base.
func (b *batch) writeGains(r *request) {
	r.out, r.lastToken = b.gainedBy(r), b.core.lastTokenOf(r)
	r.stored = b.lengthOf(r)
	r.base = b.planned
}

// lengthOf returns the tokens that a running request holds, with those in flight.
func (b *batch) lengthOf(r *request) int { return r.stored + int(b.planned-r.base) }

// gainedBy returns the tokens that a running request has gained, without those in flight.
func (b *batch) gainedBy(r *request) int { return r.out + int(max(0, b.done-r.base)) }

// phaseOf returns the place of r in totals.phase, which it keeps while it runs.
func (b *batch) phaseOf(r *request) int {
	n := int64(b.core.PageTokens)
	return int(((r.base-int64(r.stored))%n + n) % n)
}

// countCrossing returns the number of running requests with a next token that needs a page.
func (b *batch) countCrossing() int {
	return int(b.totals.phase[b.planned%int64(b.core.PageTokens)])
}

// sortEnding brings the requests in ending from place from on into line.
func (b *batch) sortEnding(from int) {
	if all := b.ending[from:]; len(all) > 1 {
		slices.SortFunc(all, func(a, b *request) int { return cmp.Compare(a.place, b.place) })
	}
}

// isShort reports whether the pool lacks room for the next tokens of all running
// requests, after evicting what it can.
func (b *batch) isShort() bool {
	need := b.core.drafts.countMissing()
	b.core.pages.evictTokens(need)
	return b.core.pages.freeTokens() < need
}
