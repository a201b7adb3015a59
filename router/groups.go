package router

import "github.com/replay-llm/replay/sim"

// GroupSize is the number of workers of a Group.
const GroupSize = 64

// Group has bounds for GroupSize workers with consecutive ids: each has at least Tokens and Blocks, and at most Overlap
// and Active.
type Group struct {
	Tokens, Blocks  int64
	Overlap, Active int32
}

// HasGroups reports whether Group may be called: the columns are those of the dispatcher.
func (c *Candidates) HasGroups() bool { return c.groups != nil }

// Group returns the bounds of the workers with ids from i * GroupSize on.
func (c *Candidates) Group(i int) Group {
	t, b := &c.groups.tokens[i], &c.groups.blocks[i]
	from, to := i*GroupSize, min((i+1)*GroupSize, len(c.Tokens))
	if t.stale {
		t.raise(c.Tokens[from:to])
	}
	if b.stale {
		b.raise(c.Blocks[from:to])
	}
	return Group{t.least, b.least, c.groups.overlap.top[i], c.groups.active.top[i]}
}

// groups has the bounds of all groups of workers.
type groups struct {
	tokens, blocks  []floor // by group
	overlap, active *scores
}

// floor is a lower bound of a column's values in a group.
type floor struct {
	least int64
	stale bool // the value that was least has grown
}

// raise sets a floor to the least of the values. It stops early at a value that equals the old floor.
func (f *floor) raise(values []int64) {
	least := values[0]
	for _, v := range values {
		if least = min(least, v); least == f.least {
			break
		}
	}
	f.least, f.stale = least, false
}

// note updates the floor after a value of the group has changed.
func (f *floor) note(before, after int64) {
	if after < f.least {
		f.least = after
	} else if before == f.least && after > before {
		f.stale = true
	}
}

// grow makes room for workers and resets all bounds.
func (g *groups) grow(workers int) {
	n := (workers + GroupSize - 1) / GroupSize
	g.tokens, g.blocks = growSlice(g.tokens, n), growSlice(g.blocks, n)
	for i := range n {
		g.tokens[i], g.blocks[i] = floor{least: -1, stale: true}, floor{least: -1, stale: true}
	}
}

// noteTokens updates the bounds after the prompt tokens of a worker, as the policy sees them, have changed.
func (c *Candidates) noteTokens(w sim.WorkerID, before int64) {
	if c.groups != nil {
		c.groups.tokens[w/GroupSize].note(before, c.Tokens[w])
	}
}

// noteBlocks updates the bounds after the blocks of a worker, as the policy sees them, have changed.
func (c *Candidates) noteBlocks(w sim.WorkerID, before int64) {
	if c.groups != nil {
		c.groups.blocks[w/GroupSize].note(before, c.Blocks[w])
	}
}
