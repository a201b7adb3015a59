package sglang

import "cmp"

// rankShortest stores how many tokens of a queued request must be computed, and whether it should wait for a similar
// prompt ahead of it.
func (u *queue) rankShortest(r *request) {
	cached := int(u.core.pages.touchPrefix(&r.seq, u.core.pages.pagesOf(r.length()))) * u.core.PageTokens
	r.postponed = cached <= lpmShared && u.beginsAlike(r)
	r.work = max(1, r.length()-min(cached+u.core.tiers.hostPrefix(), r.length()-1))
}

// compareShortest compares the order of two requests in the queue for shortest-prefill-first.
func compareShortest(a, b *request) int {
	switch {
	case a.postponed == b.postponed:
		return cmp.Or(cmp.Compare(a.work, b.work), cmp.Compare(a.joined, b.joined))
	case b.postponed:
		return -1
	}
	return 1
}

// leaveRoom cuts a chunk of the partial request, which has rest tokens to compute, so that queued requests with less
// to compute fit in the same pass. At least one page of the chunk stays.
func (u *queue) leaveRoom(width, rest int, b *budget) int {
	if u.core.Policy != ShortestPrefill || b.chunk < 2*u.core.PageTokens {
		return width
	}
	room := 0
	for _, r := range u.waiting.All() {
		pages := u.core.pages.poolTokens(r.work)
		if r.work >= rest || room+pages > b.chunk-u.core.PageTokens {
			break
		}
		room += pages
	}
	if room == 0 {
		return width
	}
	return min(width, floorTo(b.chunk-room, u.core.PageTokens))
}

// defersPrompts reports whether prompts must wait for decode-only passes after a pass with prompts, and decrements
// the number of these passes.
func (u *queue) defersPrompts() bool {
	if u.deferred > 0 && len(u.core.batch.running) >= u.core.IntervalSeats {
		u.deferred--
		return true
	}
	u.deferred = 0
	return false
}
