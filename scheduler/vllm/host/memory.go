// Package host is the host memory of vLLM's OffloadingConnector: its KV blocks, the order of eviction, and the links
// between host memory and device (docs/rules/vllm.md, "Host memory").
//
// A key names the content of a block. An extent is a range of blocks with consecutive keys that were stored or read
// together. Read memory.go, then pages.go, extents.go, order.go, connector.go and link.go.
package host

// Memory is host memory with a fixed number of blocks.
type Memory struct {
	Ranked bool // evict like vLLM 0.33; otherwise like 0.24
	room   int
	used   int // number of blocks that are stored or being copied
	idle   int // number of blocks that may be evicted
	offers int32
	all    []extent
	free   []id
	pages
	order
	stored []Span  // result of the latest Offer
	pieces []piece // pieces of the blocks of a user, reused
	// Watcher, if not nil, is called for each evicted block.
	Watcher Watcher
}

// Watcher is notified of evicted blocks.
type Watcher interface{ NoteEvicted(key Key) }

// New returns empty host memory for that many blocks.
func New(room int, ranked bool) *Memory {
	return &Memory{Ranked: ranked, room: room, pages: newPages(), order: order{oldest: none, newest: none}}
}

// Keyer names the blocks of a list. Span returns the key of block i, and the number of blocks from i on with
// consecutive keys, at most `most`. Keys from 0 on ascend with the index, and keys below 0 descend.
type Keyer interface {
	Span(i, most int) (key int64, blocks int)
}

// Span is a range of blocks with consecutive keys.
type Span struct {
	Key    Key   // key of the first block
	Index  int32 // index of the first block in the list of the user
	Blocks int32
}

// User is a request that uses host memory.
type User struct {
	Keyer        // names the blocks of the request
	seen   runs  // indexes of blocks that were stored or read
	mark   id    // 1 + id of the user's mark; 0: none
	marked int64 // rank of the user's mark
}

// Reset prepares u for another request.
func (u *User) Reset() {
	u.seen, u.mark = u.seen[:0], 0
}

// Found is the result of Lookup.
type Found struct {
	Blocks int  // number of consecutive blocks that were found
	Coming bool // the copy of a found block has not ended
	Read   bool // a found block is being read
}

// Lookup returns how many consecutive blocks of u from index from on, and before end, are in host memory.
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

// Offer stores the blocks of u with indexes from `from` up to end that are not in host memory yet, and evicts other
// blocks for them. The returned spans are valid until the next call. If there is not enough room for all, nothing is
// stored and ok is false.
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

// Stored completes the copies of blocks, which are ready then.
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

// Load pins and returns the blocks of u with indexes from `from` up to end. All must be in host memory.
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

// Loaded completes a load and unpins its blocks.
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

// release makes b evictable after its last copy or read.
func (m *Memory) release(b id) {
	m.idle += int(m.all[b].blocks)
	if !m.Ranked {
		m.all[b].upward = true
		m.link(b, none)
	}
	m.join(b)
}

// evict removes the next n blocks in order, except blocks of the latest offer. If there are fewer, evict removes none
// and returns false.
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
