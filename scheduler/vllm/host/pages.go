package host

import (
	"slices"
	"sort"
)

// Key names the content of a block. Keyer keys from 0 on keep their values, and keys below 0 come after them, in the
// order of their lists.
type Key uint64

// ownKeys is the first key of blocks that only one user has.
const ownKeys Key = 1 << 63

func asKey(key int64) Key {
	if key < 0 {
		return ownKeys + Key(^key)
	}
	return Key(key)
}

// pageBlocks is the number of keys per page. An extent never has keys of two pages.
const pageBlocks = 1024

// pages finds extents by their keys.
type pages struct {
	shared [][]id       // indexed by key / pageBlocks; each page is sorted by key
	own    map[Key][]id // the same for keys from ownKeys on
	spare  [][]id       // empty pages for reuse
}

func newPages() pages { return pages{own: map[Key][]id{}} }

// pageOf returns the page that contains a key.
func (p *pages) pageOf(key Key) []id {
	switch page := key / pageBlocks; {
	case key >= ownKeys:
		return p.own[page]
	case page < Key(len(p.shared)):
		return p.shared[page]
	}
	return nil
}

func (p *pages) setPage(key Key, all []id) {
	page := key / pageBlocks
	if len(all) == 0 {
		p.spare = append(p.spare, all)
		all = nil
	}
	switch {
	case key < ownKeys:
		for page >= Key(len(p.shared)) {
			p.shared = append(p.shared, nil)
		}
		p.shared[page] = all
	case all == nil:
		delete(p.own, page)
	default:
		p.own[page] = all
	}
}

// search returns the index in a page of the first extent that ends after a key.
func (m *Memory) search(page []id, key Key) int {
	if len(page) > 8 {
		return sort.Search(len(page), func(i int) bool { return m.all[page[i]].end() > key })
	}
	for i, b := range page {
		if m.all[b].end() > key {
			return i
		}
	}
	return len(page)
}

// find returns the extent that contains a key, or none.
func (m *Memory) find(key Key) id {
	page := m.pageOf(key)
	if i := m.search(page, key); i < len(page) && m.all[page[i]].key <= key {
		return page[i]
	}
	return none
}

// enterPage adds b to the index, so that lookups find it.
func (m *Memory) enterPage(b id) {
	key := m.all[b].key
	page := m.pageOf(key)
	if n := len(m.spare); page == nil && n > 0 {
		page, m.spare = m.spare[n-1], m.spare[:n-1]
	}
	m.setPage(key, slices.Insert(page, m.search(page, key), b))
}

// leavePage removes b from the index.
func (m *Memory) leavePage(b id) {
	key := m.all[b].key
	page := m.pageOf(key)
	i := m.search(page, key)
	m.setPage(key, slices.Delete(page, i, i+1))
}

// piece is a range of blocks of a user with consecutive keys in one extent. found is none if the blocks are not in
// host memory.
type piece struct {
	key    Key // key of the first block
	index  int // index of the first block
	blocks int32
	found  id
}

// cursor iterates over blocks of a user, piece by piece.
type cursor struct {
	user    *User
	at, end int // indices of the remaining blocks
	piece       // result of next
	span    Key // key of the next block, if left is not 0
	left    int // number of remaining blocks with consecutive keys
}

// next moves to the next piece and reports whether there is one.
func (c *cursor) next(m *Memory) bool {
	if c.left == 0 {
		if c.at >= c.end {
			return false
		}
		key, n := c.user.Span(c.at, c.end-c.at)
		c.span, c.left = asKey(key), n
	}
	c.piece = piece{key: c.span, index: c.at, found: none}
	n := Key(min(c.left, pageBlocks))
	n = min(n, pageBlocks-c.key%pageBlocks)
	page := m.pageOf(c.key)
	if i := m.search(page, c.key); i < len(page) {
		if k := &m.all[page[i]]; k.key <= c.key {
			c.found, n = page[i], min(n, k.end()-c.key)
		} else {
			n = min(n, k.key-c.key)
		}
	}
	c.blocks = int32(n)
	c.at, c.left, c.span = c.at+int(n), c.left-int(n), c.span+n
	return true
}
