package reference

import (
	"slices"
)

// literalTree is the radix tree of the rules, over token values.
type literalTree struct {
	page        int
	root        *literalNode
	clock       int
	stampSplits bool // a split renews the stamps of both parts, the first part is the younger
}

type literalNode struct {
	key      []uint64
	slots    []int32
	hashes   []uint64 // hashes of pages, if events are captured
	parent   *literalNode
	children []*literalNode
	lock     int
	stamp    int
}

func newLiteralTree(page int) *literalTree {
	return &literalTree{page: page, root: &literalNode{}}
}

func (t *literalTree) tick() int { t.clock++; return t.clock }

func (t *literalTree) common(a, b []uint64) int {
	n := 0
	for n+t.page <= len(a) && n+t.page <= len(b) && slices.Equal(a[n:n+t.page], b[n:n+t.page]) {
		n += t.page
	}
	return n
}

func (t *literalTree) child(n *literalNode, key []uint64) *literalNode {
	if len(key) < t.page {
		return nil
	}
	for _, c := range n.children {
		if slices.Equal(c.key[:t.page], key[:t.page]) {
			return c
		}
	}
	return nil
}

func (t *literalTree) match(key []uint64) (int, *literalNode) { return t.walk(key, t.tick()) }

func (t *literalTree) walk(key []uint64, now int) (int, *literalNode) {
	t.root.stamp = now
	cur, m := t.root, 0
	for m < len(key) {
		c := t.child(cur, key[m:])
		if c == nil {
			break
		}
		q := t.common(c.key, key[m:])
		if q < len(c.key) {
			return m + q, t.split(c, q, now)
		}
		m += q
		cur = c
		c.stamp = now
	}
	return m, cur
}

func (t *literalTree) lookup(key []uint64) int {
	cur, m := t.root, 0
	for m < len(key) {
		c := t.child(cur, key[m:])
		if c == nil {
			break
		}
		q := t.common(c.key, key[m:])
		m += q
		if q < len(c.key) {
			break
		}
		cur = c
	}
	return m
}

func (t *literalTree) split(c *literalNode, q, now int) *literalNode {
	up := &literalNode{key: c.key[:q:q], parent: c.parent, children: []*literalNode{c}, lock: c.lock, stamp: c.stamp}
	c.parent.children[slices.Index(c.parent.children, c)] = up
	c.key, c.parent = c.key[q:], up
	if c.slots != nil {
		up.slots, c.slots = c.slots[:q:q], c.slots[q:]
	}
	if c.hashes != nil {
		up.hashes, c.hashes = c.hashes[:q/t.page:q/t.page], c.hashes[q/t.page:]
	}
	if t.stampSplits {
		c.stamp, up.stamp = now, t.tick()
	}
	return up
}

// insert returns the length of the part of key that was cached, the node where this part ends, and the new node for
// the remaining part, if any.
func (t *literalTree) insert(key []uint64, slots []int32) (int, *literalNode, *literalNode) {
	key = key[:len(key)/t.page*t.page]
	if len(key) == 0 {
		return 0, t.root, nil
	}
	m, n := t.walk(key, t.tick())
	if m == len(key) {
		return m, n, nil
	}
	leaf := &literalNode{key: slices.Clone(key[m:]), parent: n, stamp: t.tick()}
	if slots != nil {
		leaf.slots = slices.Clone(slots[m:len(key)])
	}
	n.children = append(n.children, leaf)
	return m, leaf, leaf
}

func (t *literalTree) lockPath(n *literalNode, by int) {
	for ; n != t.root; n = n.parent {
		if n.lock += by; n.lock < 0 {
			panic("literal tree: lock below 0")
		}
	}
}

func (t *literalTree) all() []*literalNode {
	nodes := []*literalNode{t.root}
	for i := 0; i < len(nodes); i++ {
		nodes = append(nodes, nodes[i].children...)
	}
	return nodes[1:]
}

// evict removes whole leaves until n tokens are freed, and returns them in order.
func (t *literalTree) evict(n int) []*literalNode {
	var gone []*literalNode
	for freed := 0; freed < n; {
		var v *literalNode
		for _, x := range t.all() {
			if x.lock == 0 && len(x.children) == 0 && (v == nil || x.stamp < v.stamp) {
				v = x
			}
		}
		if v == nil {
			break
		}
		v.parent.children = slices.DeleteFunc(v.parent.children, func(x *literalNode) bool { return x == v })
		freed += len(v.key)
		gone = append(gone, v)
	}
	return gone
}

// sums returns the tokens in unlocked leaves, in unlocked nodes and in locked nodes.
func (t *literalTree) sums() (leaves, unlocked, locked int) {
	for _, n := range t.all() {
		switch {
		case n.lock > 0:
			locked += len(n.key)
		default:
			unlocked += len(n.key)
			if len(n.children) == 0 {
				leaves += len(n.key)
			}
		}
	}
	return
}
