package silicon

// hybrid contains the times of prompts in linear and sparse attention, which do not depend on pairs of tokens.
type hybrid struct {
	whole  grid // time by number of prompts and tokens per prompt
	behind grid // sparse attention: additional time of a prompt, by its tokens and past tokens
}

// newHybrid returns the times for the model of c.
func newHybrid(c *Composer) hybrid {
	var h hybrid
	m := &c.fit.Model
	if m.Linear == nil && m.Indexer == nil {
		return h
	}
	h.whole = newGrid(mostPrompts, func(n, tokens int) float64 {
		var p parts
		c.scanStates(&p, n, tokens)
		if m.Indexer != nil {
			c.promptSparse(&p, n, tokens, 0)
		}
		return Sum(p)
	})
	if m.Indexer != nil {
		h.behind = newGrid(mostTokens, func(tokens, past int) float64 {
			return float64(c.full * c.tables.SparsePast(c.sparse(), tokens, past).Ms)
		})
	}
	return h
}

// prompts returns the time of prompts that compute the given number of tokens each, after past tokens each.
func (h *hybrid) prompts(requests int, tokens, past float64) float64 {
	if h.whole == nil {
		return 0
	}
	total := h.whole.at(requests, int(tokens+0.5))
	if h.behind != nil && past >= 1 {
		total += float64(float64(requests) * h.behind.at(int(tokens+0.5), int(past)))
	}
	return total
}

// at returns the value at two coordinates, interpolated linearly between rungs.
func (g grid) at(first, second int) float64 {
	row, share := byRequests.segment(len(g), first)
	a := g[row].at(second)
	if share == 0 {
		return a
	}
	return a + float64(share*(g[row+1].at(second)-a))
}
