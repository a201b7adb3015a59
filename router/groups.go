package router

import "github.com/replay-llm/replay/sim"

// GroupSize is the number of workers of a Group.
const GroupSize = 64

// Group is a bound of what is known of GroupSize workers with ids next to each other: each of them has at least Tokens
// and Blocks, and at most Overlap and Active.
type Group struct {
	Tokens, Blocks  int64
	Overlap, Active int32
}

// HasGroups reports whether Group has bounds: the dispatcher keeps them, and the columns are those it keeps.
func (c *Candidates) HasGroups() bool { return c.groups != nil }

// Group returns the bounds of the workers with the ids from i * GroupSize on, c.Tokens and c.Blocks as they are now.
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

// floor is a bound from below of a column's values for a group.
type floor struct {
	least int64
	stale bool // the value that was least has grown
}

// raise raises a floor to the least of the values. It stops at one that equals the floor, since none is below it.
func (f *floor) raise(values []int64) {
	least := values[0]
	for _, v := range values {
		if least = min(least, v); least == f.least {
			break
		}
	}
	f.least, f.stale = least, false
}

// note takes in that a value of the group has changed.
func (f *floor) note(before, after int64) {
	if after < f.least {
		f.least = after
	} else if before == f.least && after > before {
		f.stale = true
	}
}

// grow makes room for so many workers, and takes all bounds in anew.
func (g *groups) grow(workers int) {
	n := (workers + GroupSize - 1) / GroupSize
	g.tokens, g.blocks = growSlice(g.tokens, n), growSlice(g.blocks, n)
	for i := range n {
		g.tokens[i], g.blocks[i] = floor{least: -1, stale: true}, floor{least: -1, stale: true}
	}
}

// noteTokens takes in that the prompt tokens of a worker, as the policy sees them, have changed.
func (c *Candidates) noteTokens(w sim.WorkerID, before int64) {
	if c.groups != nil {
		c.groups.tokens[w/GroupSize].note(before, c.Tokens[w])
	}
}

// noteBlocks takes in that the blocks of a worker, as the policy sees them, have changed.
func (c *Candidates) noteBlocks(w sim.WorkerID, before int64) {
	if c.groups != nil {
		c.groups.blocks[w/GroupSize].note(before, c.Blocks[w])
	}
}
