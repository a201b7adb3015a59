package sglang

import (
	"fmt"

	"github.com/replay-llm/replay/internal/invariant"
)

// check holds the accounts against each other.
func (c *Core) check() {
	if !invariant.Enabled {
		return
	}
	c.checkTotals()
	c.tree.check()
	c.checkPool()
}

// checkTotals holds the sums over running requests against the requests.
func (c *Core) checkTotals() {
	length, phase := 0, make([]int32, c.PageTokens)
	for i, r := range c.running {
		if r.place != i {
			panic(fmt.Sprintf("running: request %d is in place %d and believes to be in %d", r.ID, i, r.place))
		}
		length += c.lengthOf(r)
		phase[c.phaseOf(r)]++
	}
	if length != c.totals.length {
		panic(fmt.Sprintf("running: %d tokens, want %d", c.totals.length, length))
	}
	for i := range phase {
		if phase[i] != c.totals.phase[i] {
			panic(fmt.Sprintf("running: %d requests in phase %d, want %d", c.totals.phase[i], i, phase[i]))
		}
	}
}

// checkPool holds the tokens of the pool against those who hold them.
func (c *Core) checkPool() {
	own := 0
	for _, r := range c.running {
		own += c.poolTokens(c.lengthOf(r)) - r.prot
	}
	for _, r := range c.ending {
		if r.place == notRunning {
			own += c.poolTokens(r.stored) - r.prot
		}
	}
	if c.partial != nil {
		own += c.poolTokens(c.partial.stored) - c.partial.prot
	}
	for _, v := range c.merging {
		if !v.isVoid() && v.request != c.partial {
			own += c.poolTokens(v.stored) - v.prot
		}
	}
	if cached := c.tree.pages * c.PageTokens; c.free+cached+own != c.pool || c.free < 0 {
		panic(fmt.Sprintf("token pool: %d free + %d cached + %d held != %d total", c.free, cached, own, c.pool))
	}
}

// check holds the sums of the tree against its nodes.
func (t *tree) check() {
	dead := make(map[int32]bool)
	for _, n := range t.free {
		dead[n] = true
	}
	pages, unlocked := 0, 0
	for i := range int32(t.len) {
		n := t.at(i)
		if i == root || dead[i] {
			continue
		}
		if n.from >= n.to || t.at(n.parent).to != n.from && n.parent != root {
			panic(fmt.Sprintf("radix tree: node %d holds pages %d to %d below one that ends at %d", i, n.from, n.to, t.at(n.parent).to))
		}
		if n.parent != root && t.at(n.parent).locks < n.locks {
			panic(fmt.Sprintf("radix tree: node %d has %d locks, its parent %d", i, n.locks, t.at(n.parent).locks))
		}
		pages += n.size()
		if n.locks == 0 {
			unlocked += n.size()
		}
		if isLeaf := n.locks == 0 && n.children == 0; isLeaf != n.leaf {
			panic(fmt.Sprintf("radix tree: node %d with %d locks and %d children is a leaf: %v", i, n.locks, n.children, !isLeaf))
		}
	}
	if pages != t.pages || unlocked != t.unlockedPages {
		panic(fmt.Sprintf("radix tree: %d pages, %d unlocked, want %d, %d", t.pages, t.unlockedPages, pages, unlocked))
	}
}
