// Package host is the host memory of vLLM's OffloadingConnector: which KV blocks are there, in which order they
// are evicted, and the links to it (docs/rules/vllm.md, "Host memory").
//
// A block is known by a key, which names its content. Read memory.go, then order.go, connector.go and link.go.
package host

import "fmt"

// ID is a block's place in a Memory. Places are used again.
type ID int32

// None is the place of no block.
const None ID = -1

// block is a block in host memory, or the mark of a user in the order of eviction.
type block struct {
	key          int64
	rank         int64
	older, newer ID
	place        int32 // in the list of its user, from 1 on; 0 once that has ended
	readers      int32 // loads that read it
	offer        int32 // the latest offer that had it
	state        state
}

// state is what a place of a Memory is used for.
type state uint8

const (
	unused state = iota
	coming       // its copy has not ended
	ready
	mark // of a user
)

// Memory is host memory for a number of blocks.
type Memory struct {
	Ranked bool // evicts as vLLM 0.33 does; otherwise as 0.24
	room   int
	used   int // blocks that are there or coming
	idle   int // of these, the ones that may be evicted
	offers int32
	all    []block
	free   []ID
	found  [][]ID // 1 + the place by key >= 0, in pages
	own    map[int64]ID
	order
	missing []int32 // of the latest offer
	keys    []int64 // of these
	places  []ID
	// Watcher, if not nil, sees each block that is evicted.
	Watcher Watcher
}

// Watcher sees blocks that are evicted.
type Watcher interface{ NoteEvicted(b ID) }

// pageBlocks is the number of keys of a page of Memory.found.
const pageBlocks = 1024

// New returns empty host memory for a number of blocks.
func New(room int, ranked bool) *Memory {
	return &Memory{Ranked: ranked, room: room, own: map[int64]ID{}, order: order{oldest: None, newest: None}}
}

// Keyer returns the key of block i of a list, and of how many blocks from there on the keys follow one another.
type Keyer interface {
	Span(i int) (key int64, blocks int)
}

// User is a request as host memory knows it.
type User struct {
	Keyer           // of its list of blocks
	seen   []uint64 // bits of the blocks it has stored or read
	mark   ID       // 0: none; otherwise 1 + the place of its mark
	marked int64    // the rank of its mark
}

// Reset makes u a new user.
func (u *User) Reset() {
	clear(u.seen)
	u.seen, u.mark = u.seen[:0], 0
}

// see notes that u has used block i and reports whether it had not before.
func (u *User) see(i int) bool {
	for i/64 >= len(u.seen) {
		u.seen = append(u.seen, 0)
	}
	bit := uint64(1) << (i % 64)
	first := u.seen[i/64]&bit == 0
	u.seen[i/64] |= bit
	return first
}

// find returns the place of a key, or None.
func (m *Memory) find(key int64) ID {
	if key < 0 {
		if b, ok := m.own[key]; ok {
			return b
		}
		return None
	}
	if page := int(key / pageBlocks); page < len(m.found) && m.found[page] != nil {
		return m.found[page][key%pageBlocks] - 1
	}
	return None
}

func (m *Memory) setPlace(key int64, b ID) {
	if key < 0 {
		if b == None {
			delete(m.own, key)
		} else {
			m.own[key] = b
		}
		return
	}
	page := int(key / pageBlocks)
	for page >= len(m.found) {
		m.found = append(m.found, nil)
	}
	if m.found[page] == nil {
		m.found[page] = make([]ID, pageBlocks)
	}
	m.found[page][key%pageBlocks] = b + 1
}

// takePlace returns an unused place.
func (m *Memory) takePlace() ID {
	if n := len(m.free); n > 0 {
		b := m.free[n-1]
		m.free = m.free[:n-1]
		return b
	}
	m.all = append(m.all, block{})
	return ID(len(m.all) - 1)
}

// span returns the key of block i of u, for how many blocks before an end the keys follow it, and their entries of found, nil where
// there are none. Of keys below 0 it returns one.
func (m *Memory) span(u *User, i, end int) (key int64, entries []ID, blocks int) {
	key, n := u.Span(i)
	if key < 0 {
		return key, nil, 1
	}
	page, from := int(key/pageBlocks), int(key%pageBlocks)
	n = min(n, end-i, pageBlocks-from)
	if page < len(m.found) && m.found[page] != nil {
		entries = m.found[page][from : from+n]
	}
	return key, entries, n
}

// placeIn returns the place of a block of a span.
func (m *Memory) placeIn(key int64, entries []ID, i int) ID {
	switch {
	case entries != nil:
		return entries[i] - 1
	case key < 0:
		return m.find(key)
	}
	return None
}

// Found is what Lookup finds.
type Found struct {
	Blocks int  // without a gap
	Coming bool // the copy of one of them has not ended
	Read   bool // one of them is being read
}

// Lookup returns how many blocks of u, from the first one on and before the end, are there.
func (m *Memory) Lookup(u *User, from, end int) (f Found) {
	for i := from; i < end; {
		key, entries, n := m.span(u, i, end)
		for d := range n {
			b := m.placeIn(key, entries, d)
			if b == None {
				return f
			}
			k := &m.all[b]
			f.Blocks++
			f.Coming = f.Coming || k.state == coming
			f.Read = f.Read || k.readers > 0
		}
		i += n
	}
	return f
}

// Offer stores the blocks of u from the first one on and before the end that are neither there nor coming,
// evicting others for them. It returns their indices and places, until the next call; ok is
// false where there is no room for all of them, and then none is stored.
func (m *Memory) Offer(u *User, from, end int) (stored []int32, places []ID, ok bool) {
	m.offers++
	m.missing, m.keys, m.places = m.missing[:0], m.keys[:0], m.places[:0]
	for i := from; i < end; {
		key, entries, n := m.span(u, i, end)
		for d := range n {
			b := m.placeIn(key, entries, d)
			if b == None {
				m.missing, m.keys = append(m.missing, int32(i+d)), append(m.keys, key+int64(d))
			} else if m.all[b].offer = m.offers; m.all[b].state != ready {
				continue
			}
			if m.Ranked {
				m.use(u, i+d, b)
			}
		}
		i += n
	}
	if lack := len(m.missing) - (m.room - m.used); lack > 0 && (lack > m.idle || !m.evict(lack)) {
		return nil, nil, false
	}
	for n, i := range m.missing {
		b, key := m.takePlace(), m.keys[n]
		m.all[b] = block{key: key, place: i + 1, state: coming, older: None, newer: None, offer: m.offers}
		m.setPlace(key, b)
		if m.Ranked {
			m.insert(u, b)
		}
		m.places = append(m.places, b)
	}
	m.used += len(m.missing)
	return m.missing, m.places, true
}

// Stored ends the copies of blocks, which are ready from now on.
func (m *Memory) Stored(blocks []ID) {
	for _, b := range blocks {
		m.all[b].state = ready
		m.release(b)
	}
}

// Load pins blocks of u, from the first one on and before the end, which are there, and returns their places.
func (m *Memory) Load(u *User, from, end int) (blocks []ID) {
	for i := from; i < end; i++ {
		key, entries, _ := m.span(u, i, end)
		b := m.placeIn(key, entries, 0)
		k := &m.all[b]
		if k.readers == 0 {
			m.idle--
			if !m.Ranked {
				m.unlink(b)
			}
		}
		k.readers++
		blocks = append(blocks, b)
	}
	if m.Ranked {
		for i := from; i < end; i++ {
			m.use(u, i, blocks[i-from])
		}
	}
	return blocks
}

// Loaded ends a load of blocks.
func (m *Memory) Loaded(blocks []ID) {
	for _, b := range blocks {
		if m.all[b].readers--; m.all[b].readers == 0 {
			m.release(b)
		}
	}
}

// release makes b, which nothing reads or writes any more, one that may be evicted.
func (m *Memory) release(b ID) {
	m.idle++
	if !m.Ranked {
		m.link(b, None)
	}
}

// isIdle reports whether b may be evicted.
func (k *block) isIdle() bool { return k.state == ready && k.readers == 0 }

// evict takes out a number of blocks, the next in order, but none of the latest offer. It evicts none and returns false
// where there are fewer.
func (m *Memory) evict(n int) bool {
	m.places = m.places[:0]
	for b := m.oldest; b != None && len(m.places) < n; b = m.all[b].newer {
		if k := &m.all[b]; k.isIdle() && k.offer != m.offers {
			m.places = append(m.places, b)
		}
	}
	if len(m.places) < n {
		return false
	}
	for _, b := range m.places {
		if m.Watcher != nil {
			m.Watcher.NoteEvicted(b)
		}
		m.unlink(b)
		m.setPlace(m.all[b].key, None)
		m.all[b].state = unused
		m.free = append(m.free, b)
	}
	m.used -= n
	m.idle -= n
	m.places = m.places[:0]
	return true
}

// Check counts blocks.
func (m *Memory) Check() {
	used, idle := 0, 0
	for i := range m.all {
		if k := &m.all[i]; k.state == coming || k.state == ready {
			used++
			if k.isIdle() {
				idle++
			}
			if m.find(k.key) != ID(i) {
				panic(fmt.Sprintf("host memory: block %d of key %d is not found", i, k.key))
			}
		}
	}
	if used != m.used || idle != m.idle || used > m.room {
		panic(fmt.Sprintf("host memory: %d blocks, %d idle, of %d; %d and %d counted", m.used, m.idle, m.room, used, idle))
	}
	last, listed := int64(-1), 0
	for b := m.oldest; b != None; b = m.all[b].newer {
		k := &m.all[b]
		if listed++; m.Ranked && k.rank < last {
			panic(fmt.Sprintf("host memory: rank %d after %d", k.rank, last))
		}
		last = k.rank
	}
	if !m.Ranked && listed != idle {
		panic(fmt.Sprintf("host memory: %d blocks in order, %d idle", listed, idle))
	}
}
