// Package host is the host memory of vLLM's OffloadingConnector: which KV blocks are there, in which order they
// are evicted, and the links to it (docs/rules/vllm.md, "Host memory").
//
// A block is known by a key, which names its content. Blocks with keys that follow one another, and that were stored or read
// together, are one extent. Read memory.go, then pages.go, extents.go, order.go, connector.go and link.go.
package host

// Memory is host memory for a number of blocks.
type Memory struct {
	Ranked bool // evicts as vLLM 0.33 does; otherwise as 0.24
	room   int
	used   int // blocks that are there or coming
	idle   int // of these, the ones that may be evicted
	offers int32
	all    []extent
	free   []id
	pages
	order
	stored []Span  // by the latest offer
	pieces []piece // of the blocks of a user
	// Watcher, if not nil, sees each block that is evicted.
	Watcher Watcher
}

// Watcher sees blocks that are evicted.
type Watcher interface{ NoteEvicted(key Key) }

// New returns empty host memory for a number of blocks.
func New(room int, ranked bool) *Memory {
	return &Memory{Ranked: ranked, room: room, pages: newPages(), order: order{oldest: none, newest: none}}
}

// Keyer returns the key of block i of a list, and of how many blocks from there on, at most a number, the keys follow one another:
// upwards from 0 on, downwards below 0.
type Keyer interface {
	Span(i, most int) (key int64, blocks int)
}

// Span is blocks with keys that follow one another.
type Span struct {
	Key    Key   // of the first
	Index  int32 // of the first in the list of its user
	Blocks int32
}

// User is a request as host memory knows it.
type User struct {
	Keyer        // of its list of blocks
	seen   runs  // the blocks it has stored or read
	mark   id    // 0: none; otherwise 1 + the place of its mark
	marked int64 // the rank of its mark
}

// Reset makes u a new user.
func (u *User) Reset() {
	u.seen, u.mark = u.seen[:0], 0
}

// Found is what Lookup finds.
type Found struct {
	Blocks int  // without a gap
	Coming bool // the copy of one of them has not ended
	Read   bool // one of them is being read
}

// Lookup returns how many blocks of u, from the first one on and before the end, are there.
func (m *Memory) Lookup(u *User, from, end int) (f Found) {
	c := cursor{user: u, at: from, end: end}
	for c.next(m) && c.found != none {
		k := &m.all[c.found]
		f.Blocks += int(c.blocks)
		f.Coming = f.Coming || k.state == coming
		f.Read = f.Read || k.readers > 0
	}
	return f
}

// Offer stores the blocks of u from the first one on and before the end that are neither there nor coming,
// evicting other blocks for them. It returns them, until the next call; ok is false if there is no room for all of them, and
// then none is stored.
func (m *Memory) Offer(u *User, from, end int) (stored []Span, ok bool) {
	m.offers++
	m.stored = m.stored[:0]
	missing := 0
	c := cursor{user: u, at: from, end: end}
	for c.next(m) {
		if c.found == none {
			m.stored = append(m.stored, Span{c.key, int32(c.index), c.blocks})
			missing += int(c.blocks)
		} else {
			c.found = m.cut(c.found, c.key, c.blocks)
			if m.all[c.found].offer = m.offers; m.all[c.found].state != ready {
				continue
			}
		}
		if m.Ranked {
			m.use(u, &c.piece)
		}
	}
	if lack := missing - (m.room - m.used); lack > 0 && (lack > m.idle || !m.evict(lack)) {
		return nil, false
	}
	for i := range m.stored {
		s := &m.stored[i]
		b := m.add(extent{key: s.Key, blocks: s.Blocks, place: s.Index + 1, state: coming, offer: m.offers})
		m.enterPage(b)
		if m.Ranked {
			m.insert(u, b)
		}
	}
	m.used += missing
	return m.stored, true
}

// Stored ends the copies of blocks, which are ready from now on.
func (m *Memory) Stored(all []Span) {
	for i := range all {
		s := &all[i]
		for at, left := s.Key, s.Blocks; left > 0; {
			b := m.cut(m.find(at), at, left)
			k := &m.all[b]
			at, left, k.state = at+Key(k.blocks), left-k.blocks, ready
			m.release(b)
		}
	}
}

// Load pins blocks of u, from the first one on and before the end, which are there, and returns them.
func (m *Memory) Load(u *User, from, end int) (loaded []Span) {
	c := cursor{user: u, at: from, end: end}
	for c.next(m) {
		b := m.cut(c.found, c.key, c.blocks)
		k := &m.all[b]
		if k.readers == 0 {
			m.idle -= int(k.blocks)
			if !m.Ranked {
				m.unlink(b)
			}
		}
		k.readers++
		loaded = append(loaded, Span{c.key, int32(c.index), c.blocks})
	}
	if m.Ranked {
		for i := range loaded {
			s := &loaded[i]
			m.use(u, &piece{key: s.Key, index: int(s.Index), blocks: s.Blocks, found: m.find(s.Key)})
		}
	}
	return loaded
}

// Loaded ends a load of blocks.
func (m *Memory) Loaded(all []Span) {
	for i := range all {
		s := &all[i]
		for at, left := s.Key, s.Blocks; left > 0; {
			b := m.cut(m.find(at), at, left)
			k := &m.all[b]
			at, left = at+Key(k.blocks), left-k.blocks
			if k.readers--; k.readers == 0 {
				m.release(b)
			}
		}
	}
}

// release makes b, which nothing reads or writes any more, one that may be evicted.
func (m *Memory) release(b id) {
	m.idle += int(m.all[b].blocks)
	if !m.Ranked {
		m.all[b].upward = true
		m.link(b, none)
	}
	m.join(b)
}

// evict takes out a number of blocks, the next in order, but none of the latest offer. It evicts none and returns false
// where there are fewer.
func (m *Memory) evict(n int) bool {
	m.pieces = m.pieces[:0]
	left := n
	for b := m.oldest; b != none && left > 0; b = m.all[b].newer {
		if k := &m.all[b]; k.isIdle() && k.offer != m.offers {
			m.pieces = append(m.pieces, piece{found: b, blocks: int32(min(left, int(k.blocks)))})
			left -= int(m.pieces[len(m.pieces)-1].blocks)
		}
	}
	if left > 0 {
		return false
	}
	for _, x := range m.pieces {
		m.shrink(x.found, x.blocks)
	}
	m.used -= n
	m.idle -= n
	return true
}
