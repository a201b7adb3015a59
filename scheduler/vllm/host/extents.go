package host

import "fmt"

// id is the index of an extent in a Memory. Indexes are reused.
type id int32

const none id = -1

// extent is a range of blocks in host memory with consecutive keys, or the mark of a user in the order of eviction.
type extent struct {
	key          Key   // key of the first block
	rank         int64 // rank of all blocks or, if place is 0, of the last block; then each block has 1 more than the next block
	older, newer id
	blocks       int32
	place        int32 // 1 + index of the first block in the list of the user; 0 after that user has ended
	readers      int32 // number of loads that read the blocks
	offer        int32 // the latest offer that contained the blocks
	state        state
	upward       bool // the first block is evicted first; otherwise the last block is
}

// state is the state of an extent.
type state uint8

const (
	unused state = iota
	coming       // the copy has not ended
	ready
	mark // mark of a user, without blocks
)

func (k *extent) end() Key { return k.key + Key(k.blocks) }

// isIdle reports whether the blocks of k may be evicted.
func (k *extent) isIdle() bool { return k.state == ready && k.readers == 0 }

// isUpward reports whether the blocks of k are in order of eviction from the first to the last; or, if upward is
// false, from the last to the first. A single block is in both orders.
func (k *extent) isUpward(upward bool) bool { return k.upward == upward || k.blocks == 1 }

// add adds an extent to m, but to no list.
func (m *Memory) add(k extent) id {
	k.older, k.newer = none, none
	if n := len(m.free); n > 0 {
		b := m.free[n-1]
		m.free = m.free[:n-1]
		m.all[b] = k
		return b
	}
	m.all = append(m.all, k)
	return id(len(m.all) - 1)
}

// drop deletes an extent that is in no page.
func (m *Memory) drop(b id) {
	m.all[b].state = unused
	m.free = append(m.free, b)
}

// cut splits b, so that one extent begins with the key from and has at most that many blocks. cut returns that
// extent.
func (m *Memory) cut(b id, from Key, blocks int32) id {
	if m.all[b].key < from {
		b = m.split(b, from)
	}
	if to := from + Key(blocks); to < m.all[b].end() {
		m.split(b, to)
	}
	return b
}

// split moves the blocks of b from the key at on into a new extent, which it returns.
func (m *Memory) split(b id, at Key) (upper id) {
	k := m.all[b]
	below := int32(at - k.key)
	k.key, k.blocks = at, k.blocks-below
	if k.place > 0 {
		k.place += below
	} else {
		m.all[b].rank += int64(k.blocks)
	}
	m.all[b].blocks = below
	upper = m.add(k)
	if m.Ranked || k.isIdle() {
		before := b
		if k.upward {
			before = m.all[b].newer
		}
		m.link(upper, before)
	}
	m.enterPage(upper)
	return upper
}

// join merges b with its neighbors by key if they are neighbors in the order of eviction, too.
func (m *Memory) join(b id) {
	page := m.pageOf(m.all[b].key)
	i := m.search(page, m.all[b].key)
	if i+1 < len(page) && m.areAlike(b, page[i+1]) {
		m.merge(b, page[i+1])
	}
	if i > 0 && m.areAlike(page[i-1], b) {
		m.merge(page[i-1], b)
	}
}

// areAlike reports whether upper follows lower both by keys and in the order of eviction.
func (m *Memory) areAlike(lower, upper id) bool {
	a, b := &m.all[lower], &m.all[upper]
	switch {
	case a.end() != b.key || !a.isIdle() || !b.isIdle():
		return false
	case !m.Ranked && a.newer == upper && a.isUpward(true) && b.isUpward(true):
		return true
	case b.newer != lower:
		return false
	case !m.Ranked:
		return a.isUpward(false) && b.isUpward(false)
	case a.place > 0:
		return b.place == a.place+a.blocks && a.rank == b.rank
	}
	return b.place == 0 && a.rank == b.rank+int64(b.blocks)
}

// merge appends the blocks of upper to lower and deletes upper.
func (m *Memory) merge(lower, upper id) {
	m.leavePage(upper)
	a, b := &m.all[lower], &m.all[upper]
	a.upward = a.newer == upper
	m.unlink(upper)
	a.blocks += b.blocks
	if a.place == 0 {
		a.rank = b.rank
	}
	m.drop(upper)
}

// shrink removes the blocks of b that are evicted next.
func (m *Memory) shrink(b id, blocks int32) {
	k := &m.all[b]
	if m.Watcher != nil {
		for i := range Key(blocks) {
			if k.upward {
				m.Watcher.NoteEvicted(k.key + i)
			} else {
				m.Watcher.NoteEvicted(k.end() - 1 - i)
			}
		}
	}
	if blocks == k.blocks {
		m.leavePage(b)
		m.unlink(b)
		m.drop(b)
		return
	}
	k.blocks -= blocks
	switch {
	case k.upward:
		k.key += Key(blocks)
	case k.place == 0:
		k.rank += int64(blocks)
	}
}

// Check panics if the counters or the order of eviction are wrong.
func (m *Memory) Check() {
	used, idle := 0, 0
	for i := range m.all {
		if k := &m.all[i]; k.state == coming || k.state == ready {
			used += int(k.blocks)
			if k.isIdle() {
				idle += int(k.blocks)
			}
			if m.find(k.key) != id(i) || m.find(k.end()-1) != id(i) || k.blocks < 1 {
				panic(fmt.Sprintf("host memory: extent %d of %d blocks from key %d on is not found", i, k.blocks, k.key))
			}
		}
	}
	if used != m.used || idle != m.idle || used > m.room {
		panic(fmt.Sprintf("host memory: %d blocks, %d idle, of %d; %d and %d counted", m.used, m.idle, m.room, used, idle))
	}
	m.checkOrder()
}

// checkOrder panics if the order of eviction is not the order of ranks or, by the rules of vLLM 0.24, does not have
// all idle blocks.
func (m *Memory) checkOrder() {
	last, listed := int64(-1), 0
	for b := m.oldest; b != none; b = m.all[b].newer {
		k := &m.all[b]
		if listed += int(k.blocks); m.Ranked && k.rank < last {
			panic(fmt.Sprintf("host memory: rank %d after %d", k.rank, last))
		}
		if last = k.rank; k.place == 0 && k.state != mark {
			last += int64(k.blocks) - 1
		}
	}
	if !m.Ranked && listed != m.idle {
		panic(fmt.Sprintf("host memory: %d blocks in order, %d idle", listed, m.idle))
	}
}
