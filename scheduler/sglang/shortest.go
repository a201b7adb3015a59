package sglang

import "cmp"

// rankShortest notes of a request in the queue how many tokens of its prompt are not cached,
// and whether it had better wait for one ahead of it that begins alike.
func (c *Core) rankShortest(r *request) {
	cached := int(c.touchPrefix(&r.seq, c.pagesOf(r.length()))) * c.PageTokens
	r.postponed = cached <= lpmShared && c.beginsAlike(r)
	r.work = max(1, r.length()-min(cached+c.hostPrefix(), r.length()-1))
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
// those of the queue who have less to compute fit into the pass beside it. It leaves a page.
func (c *Core) leaveRoom(width, rest int, b *budget) int {
	if c.Policy != ShortestPrefill || b.chunk < 2*c.PageTokens {
		return width
	}
	room := 0
	for _, r := range c.waiting.All() {
		pages := c.poolTokens(r.work)
		if r.work >= rest || room+pages > b.chunk-c.PageTokens {
			break
		}
		room += pages
	}
	if room == 0 {
		return width
	}
	return min(width, floorTo(b.chunk-room, c.PageTokens))
}

// defersPrompts reports whether prompts wait for passes of tokens that come after each pass of
// prompts, and counts them down.
func (c *Core) defersPrompts() bool {
	if c.deferred > 0 && len(c.running) >= c.DecodeIntervalSeats {
		c.deferred--
		return true
	}
	c.deferred = 0
	return false
}
