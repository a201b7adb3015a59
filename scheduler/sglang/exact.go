package sglang

import (
	"cmp"
	"slices"
)

// stay is the remaining stay of a request in the pool.
type stay struct {
	left int // remaining output tokens
	held int // tokens that the request releases when it ends
}

// fitExactly cuts e, the remaining prompt, to the limit of the pass, and returns whether it may be admitted.
// fitExactly is used without a cache, if requests use all their output tokens. A request is admitted if the pool then
// has enough tokens each time a running or admitted request ends. An idle engine admits any request, because SGLang
// would wait forever.
func (c *Core) fitExactly(b *budget, f *flight, e *chunk) verdict {
	input := c.pages.poolTokens(e.tokens) + c.PageTokens
	free := c.pages.free - b.taken
	fits := float64(input) <= min(c.memoryLeft(b), float64(free))
	if c.Window > 0 {
		fits = fits && c.win.windowNeed(e.tokens, min(max(0, e.maxOut-e.out), c.ClipNewTokens), b.chunk) <= c.win.windowLeft(b)
	} else {
		fits = fits && c.outlasts(b, f, e, free-input)
	}
	if !fits && !c.isIdle(f) {
		return noTokens
	}
	if e.tokens > b.chunk {
		e.tokens, e.whole = b.chunk, false
		if e.tokens <= 0 {
			return spent
		}
	}
	return proceed
}

// outlasts reports whether n free tokens are enough for e and all other requests until the last of them ends, with
// one spare token per request.
func (c *Core) outlasts(b *budget, f *flight, e *chunk, free int) bool {
	mine := stay{left: e.maxOut - e.out, held: e.length()}
	if b.stays == nil {
		b.stays = append(c.stays[:0], mine)
		for _, r := range c.batch.running {
			gained := c.batch.gainedBy(r)
			b.stays = append(b.stays, stay{left: r.maxOut - gained, held: r.InputTokens + gained})
		}
		for i := range f.batch {
			r := f.batch[i].request
			b.stays = append(b.stays, stay{left: r.maxOut - r.out, held: r.length()})
		}
		b.stays = slices.DeleteFunc(b.stays, func(s stay) bool { return s.left <= 0 })
		slices.SortStableFunc(b.stays, func(x, y stay) int { return cmp.Compare(x.left, y.left) })
	} else if mine.left > 0 {
		at := slices.IndexFunc(b.stays, func(s stay) bool { return mine.left <= s.left })
		if at < 0 { // SGLang inserts the entry before the last entry
			at = max(0, len(b.stays)-1)
		}
		b.stays = slices.Insert(b.stays, at, mine)
	}
	c.stays = b.stays
	for i, s := range b.stays {
		n := len(b.stays) - i
		if free-s.left*n <= n {
			return false
		}
		free += s.held
	}
	return true
}
