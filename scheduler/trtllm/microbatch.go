package trtllm

// countCost returns the number of tokens to count for a chunk of n prompt tokens. The prompt has left tokens to
// compute, of which found are expected in the cache.
func countCost(n, found, left int) int {
	if found <= 0 || found+n < left {
		return n
	}
	return max(0, left-found)
}

// expected returns the number of prompt tokens of r that are expected in the cache.
func (c *Core) expected(r *request) int {
	if !c.CreditTokens || !r.isFirstChunk() {
		return 0
	}
	return r.expect
}

// batch selects the requests and tokens of a pass among the requests with blocks.
func (c *Core) batch(f *flight) {
	used, wanted, size := 0, 0, 0
	fits := true
	c.prompts = c.prompts[:0]
walk:
	for _, r := range c.chosen.fit {
		switch r.state {
		case generating:
			if used+1 > c.MaxTokens {
				break walk
			}
			f.gen = append(f.gen, visit{request: r, tokens: 1})
			used++
		case inContext:
			r.chunk = r.rest()
			n := c.costOf(r)
			if c.Chunking == Whole {
				if n > c.MaxTokens {
					c.failed = append(c.failed, r)
					continue
				}
				if used+n > c.MaxTokens {
					break walk
				}
				used += n
			} else {
				if n > c.MaxTokens {
					n, fits = c.MaxTokens, false
				}
				wanted += n
			}
			c.prompts = append(c.prompts, r)
		default:
			continue
		}
		if size++; size >= c.MaxBatch {
			break
		}
	}
	if c.Chunking != Whole && (!fits || wanted > c.MaxTokens-used) {
		c.cutPrompts(c.MaxTokens - used)
		c.addPrompts(f, func(r *request) bool { return r.chunk > 0 && r.chunk < r.rest() })
		c.addPrompts(f, func(r *request) bool { return r.chunk > 0 && r.chunk == r.rest() })
		return
	}
	c.addPrompts(f, func(r *request) bool { return r.chunk > 0 })
}

// costOf returns the cost of the remaining prompt of r.
func (c *Core) costOf(r *request) int {
	if c.Chunking != Whole {
		return countCost(r.chunk, c.expected(r), r.rest())
	}
	if !c.CreditTokens {
		return r.known
	}
	return max(1, countCost(r.known, c.expected(r), r.rest()))
}

func (c *Core) addPrompts(f *flight, takes func(r *request) bool) {
	for _, r := range c.prompts {
		if takes(r) {
			f.ctx = append(f.ctx, visit{request: r})
		}
	}
}

// cutPrompts cuts the prompts of a pass to the given number of tokens.
func (c *Core) cutPrompts(room int) {
	if c.Chunking == EqualProgress {
		c.cutEqually(room)
		return
	}
	for _, r := range c.prompts {
		left := r.rest()
		found, n := min(c.expected(r), left), left
		if countCost(n, found, left) > room {
			n = min(room, n)
		}
		if countCost(n, found, left) > c.MaxTokens {
			n = min(c.MaxTokens, left)
		}
		if n < left {
			n = n / c.BlockTokens * c.BlockTokens
		}
		r.chunk = n
		room -= countCost(n, found, left)
	}
}

// cutEqually extends the chunks of all prompts block by block in turn.
func (c *Core) cutEqually(room int) {
	for _, r := range c.prompts {
		r.chunk = 0
	}
	used := 0
	for moved := true; used < room && moved; {
		moved = false
		for _, r := range c.prompts {
			left := r.rest()
			found, n := min(c.expected(r), left), min(r.chunk+c.BlockTokens, left)
			more := countCost(n, found, left) - countCost(r.chunk, found, left)
			if used+more > room || n > c.MaxTokens {
				continue
			}
			used += more
			moved = moved || n > r.chunk
			r.chunk = n
		}
	}
}

// waitForBatch removes the prompts from a pass with answers if the pass is too small, for at most WaitIters passes.
func (c *Core) waitForBatch(f *flight) {
	if c.WaitIters == 0 && c.WaitRatio == 0 || len(f.ctx) == 0 || len(f.gen) == 0 {
		return
	}
	n := len(f.gen)
	for i := range f.ctx {
		n += f.ctx[i].known
	}
	if c.waits < c.WaitIters && float64(n) < float64(c.WaitRatio*float64(c.MaxTokens)) {
		c.waits++
		f.ctx = f.ctx[:0]
		return
	}
	c.waits = 0
}
