package sglang

import (
	"cmp"
	"slices"
)

// stay is the remainder of a request's time in the pool.
type stay struct {
	left int // tokens to come
	held int // tokens, which it releases when it ends
}

// fitExactly cuts e, the rest of a prompt, to what the pass may compute of it, and returns
// whether it may be admitted, on an engine without a cache on which requests use all their
// outputs: if with all running and admitted requests the pool never runs out of tokens,
// checked when each of them ends. An idle engine admits it in any case: SGLang would wait for good.
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
	return goOn
}

// outlasts reports whether n free tokens are enough for e and all other requests until the last
// of them ends, with a token each to spare.
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
		if at < 0 { // SGLang puts it before the last
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
