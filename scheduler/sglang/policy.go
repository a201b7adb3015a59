package sglang

import (
	"cmp"
	"slices"

	"github.com/replay-llm/replay/sim/prompt"
)

// Limits of the longest-prefix-match policy.
const (
	lpmQueue  = 128 // a longer queue stays as it is
	lpmShared = 32  // tokens; a prompt cached up to here may wait for another's
)

// sorted is what is known of the order of the queue, with the scratch of sorting.
type sorted struct {
	valid   bool       // nothing has come or gone since the queue was sorted
	content int64      // of the tree when it was
	keys    []pageKey  // of the first pages of the prompts to be computed
	ahead   []*request // those requests
}

// sortQueue brings the queue into the policy's order.
func (c *Core) sortQueue() {
	if c.Policy != LPM || !c.caching || c.waiting.Len() == 0 || c.waiting.Len() > lpmQueue {
		return
	}
	s := &c.sorted
	if s.valid && s.content == c.tree.content {
		return
	}
	s.valid, s.content = true, c.tree.content
	s.keys, s.ahead = s.keys[:0], s.ahead[:0]
	for _, r := range c.waiting.All() {
		r.rank = c.rankOf(r)
	}
	slices.SortStableFunc(c.waiting.All(), func(a, b *request) int { return cmp.Compare(b.rank, a.rank) })
}

// rankOf returns what the queue is sorted by, highest first: the cached tokens of
// r, and less than any when r had better wait for a request ahead of it that
// begins alike.
func (c *Core) rankOf(r *request) int {
	limit := r.length()
	if c.rules.PrefixCap {
		limit--
	}
	cached := int(c.tree.lookup(&r.seq, c.pagesOf(limit))) * c.PageTokens
	switch {
	case cached > lpmShared || !c.beginsAlike(r):
		return cached
	case c.rules.PrefixCap:
		return -1
	}
	return cached - lpmShared - 1
}

// beginsAlike reports whether one of the requests ahead begins with the same
// tokens as r; if not, r joins them.
func (c *Core) beginsAlike(r *request) bool {
	if c.rules.PrefixCap {
		return c.beginsAlikeByToken(r)
	}
	i := c.pagesOf(lpmShared + c.PageTokens - 1)
	if c.pagesOf(r.length()) < i {
		return false
	}
	return c.noteKey(r.seq.key(i-1, c.tree.perNode))
}

// noteKey remembers key, and reports whether it was there before.
func (c *Core) noteKey(key pageKey) bool {
	if slices.Contains(c.sorted.keys, key) {
		return true
	}
	c.sorted.keys = append(c.sorted.keys, key)
	return false
}

func (c *Core) beginsAlikeByToken(r *request) bool {
	if r.InputTokens < lpmShared {
		return false // its own output is among the tokens that count
	}
	if c.tree.perNode > 1 {
		// A node is a trace block: other nodes differ from their first token on.
		return c.noteKey(r.seq.nodeKey((lpmShared - 1) / (int32(c.PageTokens) * c.tree.perNode)))
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

// opening returns the part of r's prompt that decides whether another begins alike.
func (c *Core) opening(r *request) prompt.Prompt {
	p := r.Prompt
	p.Nodes = p.Nodes[:min(len(p.Nodes), (lpmShared-1)/(c.PageTokens*int(c.tree.perNode))+1)]
	return p
}
