package sglang

// children finds the child of a radix node by its first page: a hash table with
// linear probing, which removes without leaving marks and so never grows while
// the tree does not.
type children struct {
	slots []childSlot // a power of two of them, at most three quarters in use
	used  int
}

type childSlot struct {
	key    pageKey
	parent int32
	child  int32 // 0: the slot is empty, for the root is nobody's child
}

func newChildren() children { return children{slots: make([]childSlot, 64)} }

// home is the slot where the search for a child begins.
func (c *children) home(parent int32, key pageKey) int {
	h := (uint64(key)*0x9E3779B97F4A7C15 ^ uint64(parent)) * 0xBF58476D1CE4E5B9
	return int(h>>32) & (len(c.slots) - 1)
}

// find is the slot of the child, or the empty slot where it would be.
func (c *children) find(parent int32, key pageKey) int {
	i := c.home(parent, key)
	for {
		s := &c.slots[i]
		if s.child == 0 || s.key == key && s.parent == parent {
			return i
		}
		i = (i + 1) & (len(c.slots) - 1)
	}
}

// get is the child, 0 when there is none.
func (c *children) get(parent int32, key pageKey) int32 {
	return c.slots[c.find(parent, key)].child
}

// put makes child the child of parent that begins with key.
func (c *children) put(parent int32, key pageKey, child int32) {
	i := c.find(parent, key)
	if c.slots[i].child == 0 {
		if c.used++; 4*c.used > 3*len(c.slots) {
			c.grow()
			i = c.find(parent, key)
		}
	}
	c.slots[i] = childSlot{key, parent, child}
}

func (c *children) grow() {
	old := c.slots
	c.slots = make([]childSlot, 2*len(old))
	for _, s := range old {
		if s.child != 0 {
			c.slots[c.find(s.parent, s.key)] = s
		}
	}
}

// remove takes a child out and closes the gap it leaves.
func (c *children) remove(parent int32, key pageKey) {
	mask := len(c.slots) - 1
	gap := c.find(parent, key)
	c.used--
	for i := (gap + 1) & mask; c.slots[i].child != 0; i = (i + 1) & mask {
		home := c.home(c.slots[i].parent, c.slots[i].key)
		if (i-home)&mask >= (i-gap)&mask {
			c.slots[gap] = c.slots[i]
			gap = i
		}
	}
	c.slots[gap] = childSlot{}
}
