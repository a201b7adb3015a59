package sglang

import "cmp"

// rankShortest notes of a request in the queue how many tokens of its prompt are not cached,
// and whether it had better wait for one ahead of it that begins alike.
func (u *queue) rankShortest(r *request) {
	cached := int(u.core.pages.touchPrefix(&r.seq, u.core.pages.pagesOf(r.length()))) * u.core.PageTokens
	r.postponed = cached <= lpmShared && u.beginsAlike(r)
	r.work = max(1, r.length()-min(cached+u.core.tiers.hostPrefix(), r.length()-1))
}

// compareShortest compares where requests stand in line when the shortest prefill goes first.
func compareShortest(a, b *request) int {
	switch {
	case a.postponed == b.postponed:
		return cmp.Or(cmp.Compare(a.work, b.work), cmp.Compare(a.joined, b.joined))
	case b.postponed:
		return -1
	}
	return 1
}

// leaveRoom cuts a chunk of the partial request, which is to compute rest more tokens, so that
// queued requests with less to compute fit into the same pass. It leaves a page.
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

// defersPrompts reports whether prompts wait for passes of tokens that come after each pass of
// prompts, and counts them down.
func (u *queue) defersPrompts() bool {
	if u.deferred > 0 && len(u.core.batch.running) >= u.core.IntervalSeats {
		u.deferred--
		return true
	}
	u.deferred = 0
	return false
}
