package reference

import "fmt"

// checkTotals holds the sums over running requests against the requests.
func (c *Core) checkTotals() {
	var t totals
	t.phase = make([]int32, c.PageTokens)
	for i, r := range c.running {
		if r.place != i {
			panic(fmt.Sprintf("running: request %d is in place %d and believes to be in %d", r.ID, i, r.place))
		}
		n := c.lengthOf(r)
		t.length += n
		t.slack += c.slackOf(n)
		left := max(1, r.maxOut) - r.out - c.tokensSince(r)
		t.reserve += min(left, c.ClipNewTokens)
		if left > c.ClipNewTokens {
			t.clipped++
		}
		t.phase[c.phaseOf(r)]++
	}
	got := c.totals
	if got.length != t.length || got.slack != t.slack || got.reserve != t.reserve || got.clipped != t.clipped {
		panic(fmt.Sprintf("running: sums are %+v, want %+v", got, t))
	}
	for i := range t.phase {
		if t.phase[i] != got.phase[i] {
			panic(fmt.Sprintf("running: %d requests in phase %d, want %d", got.phase[i], i, t.phase[i]))
		}
	}
}

// check holds the sums of the tree against its nodes.
func (t *tree) check() {
	dead := make(map[int32]bool)
	for _, n := range t.free {
		dead[n] = true
	}
	pages, leaf := 0, 0
	for i := range int32(t.len) {
		n := t.at(i)
		if int32(i) == root || dead[int32(i)] {
			continue
		}
		if n.from >= n.to || t.at(n.parent).to != n.from && n.parent != root {
			panic(fmt.Sprintf("radix tree: node %d holds pages %d to %d below one that ends at %d", i, n.from, n.to, t.at(n.parent).to))
		}
		if n.parent != root && t.at(n.parent).locks < n.locks {
			panic(fmt.Sprintf("radix tree: node %d has %d locks, its parent %d", i, n.locks, t.at(n.parent).locks))
		}
		pages += n.size()
		isLeaf := n.locks == 0 && n.children == 0
		if isLeaf != (n.leaf) {
			panic(fmt.Sprintf("radix tree: node %d with %d locks and %d children is a leaf: %v", i, n.locks, n.children, !isLeaf))
		}
		if isLeaf {
			leaf += n.evictPages()
		}
	}
	if pages != t.pages || leaf != t.leafPages {
		panic(fmt.Sprintf("radix tree: %d pages, %d in leaves, want %d, %d",
			t.pages, t.leafPages, pages, leaf))
	}
}
