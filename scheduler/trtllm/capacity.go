package trtllm

// chosen is the result of the capacity scheduler for the active requests.
type chosen struct {
	fit    []*request
	paused []*request
}

// credit returns how many prefix blocks of r are held by other requests. credit sets r.expect, the prompt tokens
// expected in the cache.
func (c *Core) credit(r *request) int {
	r.expect = 0
	if !c.CreditCapacity || !c.Reuse || r.state != inContext || !r.isFirstChunk() || r.blocks > 0 {
		return 0
	}
	w, full := c.pool.walk(r), r.prompt/c.BlockTokens
	r.expect = min(w.all, full) * c.BlockTokens
	return min(w.held, full)
}

// countRemaining returns how many blocks r needs until its end.
func (c *Core) countRemaining(r *request) int {
	tokens := r.prompt + r.left
	if c.MaxLength > 0 {
		tokens = min(tokens, c.MaxLength)
	}
	return countBlocks(tokens, c.BlockTokens) - c.credit(r) - r.blocks
}

// countNext returns how many blocks r needs for the next pass.
func (c *Core) countNext(r *request) int {
	if r.state == inContext {
		if !r.isFirstChunk() {
			r.expect = 0
			return 0
		}
		return countBlocks(r.prompt, c.BlockTokens) - c.credit(r)
	}
	r.expect = 0
	add := min(1, r.left-(r.slots-r.prompt))
	return countBlocks(r.slots+add, c.BlockTokens) - countBlocks(r.slots, c.BlockTokens)
}

// startSkipping collects the first new block of each prompt that is being computed.
func (c *Core) startSkipping() {
	clear(c.coming)
	if !c.Reuse {
		return
	}
	for _, r := range c.active {
		if r.state == inContext && !r.isFirstChunk() {
			if at, ok := c.pool.firstNew(r); ok {
				c.coming[at] = struct{}{}
			}
		}
	}
}

// skips reports whether r waits for a block that another request computes, and records the first new block of r if
// not.
func (c *Core) skips(r *request) bool {
	if !c.Reuse || r.state != inContext || !r.isFirstChunk() {
		return false
	}
	at, ok := c.pool.firstNew(r)
	if !ok {
		return false
	}
	if _, ok := c.coming[at]; ok {
		return true
	}
	c.coming[at] = struct{}{}
	return false
}

// choose runs the capacity scheduler.
func (c *Core) choose() {
	c.chosen.fit, c.chosen.paused = c.chosen.fit[:0], c.chosen.paused[:0]
	switch c.Policy {
	case MaxUtil:
		c.chooseForPass()
	case MaxRequests:
		for _, r := range c.active { // at most MaxBatch requests are active
			if !r.arrived {
				c.chosen.fit = append(c.chosen.fit, r)
			}
		}
	default:
		c.chooseForGood()
	}
}

// chooseForGood chooses requests for which there are blocks until their end.
func (c *Core) chooseForGood() {
	avail, h := c.pool.free, &c.chosen
	c.pending = c.pending[:0]
	for _, r := range c.active {
		if len(h.fit) >= c.MaxBatch {
			break
		}
		if r.arrived {
			continue
		}
		if r.state == inContext {
			c.pending = append(c.pending, r)
			continue
		}
		h.fit = append(h.fit, r)
		avail -= c.countRemaining(r)
	}
	if c.Policy == Static && len(h.fit) > 0 || len(c.pending) == 0 {
		return
	}
	if c.Policy != Static {
		c.startSkipping()
	}
	for _, r := range c.pending {
		if c.Policy != Static && c.skips(r) {
			continue
		}
		if len(h.fit) >= c.MaxBatch {
			return
		}
		need := c.countRemaining(r)
		if need > avail {
			return
		}
		h.fit = append(h.fit, r)
		avail -= need
	}
}

// chooseForPass chooses requests for which there are blocks in the next pass. If there are too few blocks,
// chooseForPass pauses started requests, the latest first.
func (c *Core) chooseForPass() {
	h := &c.chosen
	free, used := c.pool.free, 0
	c.startSkipping()
	clear(c.pool.fewer)
	end := len(c.active)
	for i := 0; i < end; {
		r := c.active[i]
		if r.arrived || c.skips(r) {
			i++
			continue
		}
		if len(h.fit) < c.MaxBatch {
			if need := c.countNext(r); used+need <= free {
				used += need
				h.fit = append(h.fit, r)
				i++
				continue
			}
		}
		v := end - 1
		for v >= i && !c.active[v].isStarted() {
			v--
		}
		if v < i {
			return
		}
		c.pool.parts(c.active[v])
		for _, x := range c.active[v].held {
			c.pool.fewer[x.block]++
			if c.pool.all[x.block].refs == c.pool.fewer[x.block] {
				free += int(x.n)
			}
		}
		h.paused = append(h.paused, c.active[v])
		end = v
	}
}
