package sglang

import (
	"cmp"
	"math"
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang/radix"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Limits of what a pass looks up of the queue.
const (
	looked       = 128 // requests; lpm leaves a longer queue as it is
	lpmShared    = 32  // tokens; a prompt cached up to here may wait for another's
	refreshEvery = 32  // attempts to admit
)

// sorted is the scratch of sorting.
type sorted struct {
	keys  []radix.Key // of the first pages of the prompts to be computed
	ahead []*request  // those requests
}

// sortQueue brings the queue into the policy's order. Lookups make what they find young; where
// the policy needs none and eviction is by age alone, every 32nd attempt looks up the head of the queue just for that.
func (c *Core) sortQueue() {
	n := c.waiting.Len()
	all := c.waiting.All()
	switch {
	case c.Policy == Random:
		c.shuffle(all)
	case c.Policy == LOF:
		slices.SortStableFunc(all, func(a, b *request) int {
			return cmp.Or(c.comparePriority(a, b), cmp.Compare(b.maxOut, a.maxOut))
		})
	case c.Priorities.On:
		slices.SortFunc(all, c.comparePriority)
	}
	if n == 0 || !c.caching {
		return
	}
	if c.Policy == ShortestPrefill {
		c.sorted.keys, c.sorted.ahead = c.sorted.keys[:0], c.sorted.ahead[:0]
		for _, r := range all {
			c.rankShortest(r)
		}
		slices.SortFunc(all, compareShortest)
		return
	}
	if (c.Policy == LPM || c.Policy == HRRN) && n <= looked {
		c.sorted.keys, c.sorted.ahead = c.sorted.keys[:0], c.sorted.ahead[:0]
		for _, r := range all {
			r.rank = c.rankOf(r)
		}
		slices.SortStableFunc(all, func(a, b *request) int {
			if order := cmp.Compare(b.rank, a.rank); order != 0 || c.Policy == LPM {
				return order
			}
			return cmp.Compare(a.ID, b.ID)
		})
		return
	}
	if c.Eviction.Policy != radix.LRU {
		return
	}
	if c.attempts++; c.attempts%refreshEvery != 1 {
		return
	}
	for i := min(n, looked) - 1; i >= 0; i-- {
		c.touchPrefix(&all[i].seq, c.pagesOf(all[i].length()))
	}
}

// shuffle puts requests in an order that depends on the seed, on them, and on how many times
// it was called.
func (c *Core) shuffle(all []*request) {
	c.shuffles++
	for _, r := range all {
		r.rank = scheduler.DrawNumber(c.Seed, uint64(r.ID), c.shuffles)
	}
	slices.SortFunc(all, func(a, b *request) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.ID, b.ID)) })
}

// rankOf returns what the queue is sorted by, highest first: the cached tokens of r, or by
// hrrn the tokens that were computed while it waited over those it needs; and less than any
// when r had better wait for a request ahead of it that begins alike.
func (c *Core) rankOf(r *request) float64 {
	pages := c.touchPrefix(&r.seq, c.pagesOf(r.length()))
	cached := int(pages) * c.PageTokens
	if cached <= lpmShared && c.beginsAlike(r) {
		return -1
	}
	cached = min(cached+c.hostPrefix(), r.length()-1)
	if c.Policy == LPM {
		return float64(cached)
	}
	if cached >= r.InputTokens {
		return math.Inf(1)
	}
	return float64(c.counted.sum-r.queuedAt) / float64(r.InputTokens-cached)
}

// beginsAlike reports whether one of the requests ahead begins with the same tokens as
// r; if not, r joins them.
func (c *Core) beginsAlike(r *request) bool {
	if c.ownPrompt(r.Request) < lpmShared {
		return false // its own output is among the tokens that count
	}
	if c.tree.PerNode > 1 {
		// A node is a trace block: other nodes differ from their first token on.
		key := r.seq.NodeKey((lpmShared - 1) / (int32(c.PageTokens) * c.tree.PerNode))
		if slices.Contains(c.sorted.keys, key) {
			return true
		}
		c.sorted.keys = append(c.sorted.keys, key)
		return false
	}
	mine := c.opening(r)
	for _, o := range c.sorted.ahead {
		if c.Tree.Common(mine, c.opening(o), lpmShared, lpmShared) == lpmShared {
			return true
		}
	}
	c.sorted.ahead = append(c.sorted.ahead, r)
	return false
}

// ownPrompt returns how many tokens of a prompt its path knows for certain: all of them, or the
// full pages where tokens of an answer that was begun elsewhere follow.
func (c *Core) ownPrompt(r *sim.Request) int {
	if full := int(r.Prompt.Blocks) * c.PageTokens; r.InputTokens >= full+c.PageTokens {
		return full
	}
	return r.InputTokens
}

// opening returns the part of r's prompt that decides whether another begins alike.
func (c *Core) opening(r *request) prompt.Prompt {
	p := r.Prompt
	p.Nodes = p.Nodes[:min(len(p.Nodes), (lpmShared-1)/(c.PageTokens*int(c.tree.PerNode))+1)]
	return p
}
