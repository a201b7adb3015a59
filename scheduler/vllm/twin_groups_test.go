package vllm_test

import "slices"

// cached returns the block that group g finds for block i of r, or nil.
func (t *twin) cached(r *twinRequest, i, g int) *twinBlock {
	if same := t.pool.found[t.nameOf(r, i, g)]; len(same) > 0 {
		return same[0]
	}
	return nil
}

// hits returns the cached first blocks of r, at most most, by group. A block is nil if the group does not need it.
func (t *twin) hits(r *twinRequest, most int) [][]*twinBlock {
	found := make([][]*twinBlock, len(t.groups))
	if !t.cfg.PrefixCaching {
		return found
	}
	n := most
	for g, w := range t.groups {
		if !w.Given() {
			run := 0
			for run < n && t.cached(r, run, g) != nil {
				run++
			}
			n = run
		}
	}
	for n > 0 && !t.servesWindows(r, n) {
		n--
	}
	for g, w := range t.groups {
		found[g] = make([]*twinBlock, n)
		for i := range n {
			if !w.Given() || i >= t.passed(g, n*t.cfg.BlockTokens) {
				found[g][i] = t.cached(r, i, g)
			}
		}
	}
	return found
}

// servesWindows reports whether groups with windows have the blocks that they need after the first n blocks of r.
func (t *twin) servesWindows(r *twinRequest, n int) bool {
	for g, w := range t.groups {
		if !w.Given() {
			continue
		}
		for i := t.passed(g, n*t.cfg.BlockTokens); i < n; i++ {
			if t.cached(r, i, g) == nil {
				return false
			}
		}
	}
	return true
}

// passed returns how many blocks of a request group g has released after the given number of computed tokens.
func (t *twin) passed(g, computed int) int {
	w := t.groups[g]
	tokens := max(0, computed-w.Tokens+1)
	if w.Chunked {
		tokens = computed / w.Tokens * w.Tokens
	}
	return tokens / t.cfg.BlockTokens
}

// admitted returns how many blocks group g needs at the same time for a request with whole blocks.
func (t *twin) admitted(g, whole int) int {
	w := t.groups[g]
	if !w.Given() || !t.rules.WindowBound || t.cfg.MaxBatchedTokens == 0 {
		return whole
	}
	tokens := w.Tokens + t.cfg.MaxBatchedTokens
	if t.rules.WindowLag && t.rules.TwoInFlight {
		tokens += t.cfg.MaxBatchedTokens
	}
	if w.Chunked {
		return min(whole, (tokens+t.cfg.BlockTokens-1)/t.cfg.BlockTokens)
	}
	return min(whole, (tokens-1+t.cfg.BlockTokens-1)/t.cfg.BlockTokens+1)
}

// dropPassed releases the blocks of r that are before the windows, last to first.
func (t *twin) dropPassed(r *twinRequest) {
	computed := r.computed
	for _, f := range t.planned {
		for _, x := range f.shares {
			if x.r == r && t.rules.WindowLag {
				computed -= x.tokens
			}
		}
	}
	for g, w := range t.groups {
		if !w.Given() {
			continue
		}
		n := min(t.passed(g, computed), len(r.held[g]))
		if slices.ContainsFunc(r.held[g][:n], func(b *twinBlock) bool { return b != nil }) {
			t.name(r, r.computed-(r.target-r.known()))
		}
		for i := n - 1; i >= 0; i-- {
			t.pool.dropHolder(r.held[g][i])
			r.held[g][i] = nil
		}
	}
}
