package reference

import (
	"cmp"
	"slices"

	"github.com/replay-llm/replay/scheduler/sglang"
	"github.com/replay-llm/replay/scheduler/sglang/radix"
)

// Limits of the longest-prefix-match policy.
const (
	lpmQueue  = 128 // requests; a longer queue is not sorted
	lpmShared = 32  // tokens; a prompt with at most this many cached tokens may wait for a similar prompt
)

// sorted is the state of the sorted queue, with scratch memory.
type sorted struct {
	valid   bool        // no request has joined or left since the queue was sorted
	content int64       // Content of the tree when the queue was sorted
	keys    []radix.Key // keys of the first pages of prompts to compute
}

// sortQueue sorts the queue by the policy.
func (c *Core) sortQueue() {
	if c.Policy != sglang.LPM || c.waiting.Len() == 0 || c.waiting.Len() > lpmQueue {
		return
	}
	s := &c.sorted
	if s.valid && s.content == c.tree.Content {
		return
	}
	s.valid, s.content = true, c.tree.Content
	s.keys = s.keys[:0]
	for _, r := range c.waiting.All() {
		r.rank = c.rankOf(r)
	}
	slices.SortStableFunc(c.waiting.All(), func(a, b *request) int { return cmp.Compare(b.rank, a.rank) })
}

// rankOf returns the sort key of r, highest first: the cached tokens of r. A postponed request has a negative key.
func (c *Core) rankOf(r *request) int {
	cached := int(c.tree.Lookup(&r.seq, c.pagesOf(r.length()))) * c.PageTokens
	if cached > lpmShared || !c.beginsAlike(r) {
		return cached
	}
	return cached - lpmShared - 1
}

// beginsAlike reports whether a request ahead of r begins with the same tokens. If no request ahead begins with the
// same tokens, beginsAlike adds r to the requests ahead.
func (c *Core) beginsAlike(r *request) bool {
	i := c.pagesOf(lpmShared + c.PageTokens - 1)
	if c.pagesOf(r.length()) < i {
		return false
	}
	key := r.seq.KeyOf(i-1, c.tree.PerNode)
	if slices.Contains(c.sorted.keys, key) {
		return true
	}
	c.sorted.keys = append(c.sorted.keys, key)
	return false
}
