package reference

import (
	"cmp"
	"slices"

	"github.com/replay-llm/replay/scheduler/sglang"
	"github.com/replay-llm/replay/scheduler/sglang/radix"
)

// Limits of the longest-prefix-match policy.
const (
	lpmQueue  = 128 // a longer queue is not reordered
	lpmShared = 32  // tokens; a prompt cached up to here may wait for another's
)

// sorted has the known facts of the order of the queue, with the scratch of sorting.
type sorted struct {
	valid   bool        // nothing has come or gone since the queue was sorted
	content int64       // of the tree when it was
	keys    []radix.Key // of the first pages of the prompts to be computed
}

// sortQueue brings the queue into the policy's order.
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

// rankOf returns the sort key of the queue, highest first: the cached tokens of r. A postponed request has the lowest
// key.
func (c *Core) rankOf(r *request) int {
	cached := int(c.tree.Lookup(&r.seq, c.pagesOf(r.length()))) * c.PageTokens
	if cached > lpmShared || !c.beginsAlike(r) {
		return cached
	}
	return cached - lpmShared - 1
}

// beginsAlike reports whether one of the requests ahead begins with the same
// tokens as r; if not, r joins them.
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
