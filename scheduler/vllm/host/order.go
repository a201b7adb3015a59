package host

import "slices"

// order is the order of eviction, next block first. By the rules of vLLM 0.24 it contains the idle blocks. By the
// rules of 0.33 it contains all blocks by rank. Until a user ends, the blocks that it stored or read have its rank,
// with the last block of its list first.
type order struct {
	oldest, newest id
	rank           int64
}

// link inserts b in front of another extent, or appends it if before is none.
func (m *Memory) link(b, before id) {
	k := &m.all[b]
	k.newer = before
	if before == none {
		k.older, m.newest = m.newest, b
	} else {
		k.older, m.all[before].older = m.all[before].older, b
	}
	if k.older == none {
		m.oldest = b
	} else {
		m.all[k.older].newer = b
	}
}

// unlink removes b from the order.
func (m *Memory) unlink(b id) {
	k := &m.all[b]
	if k.older == none {
		m.oldest = k.newer
	} else {
		m.all[k.older].newer = k.newer
	}
	if k.newer == none {
		m.newest = k.older
	} else {
		m.all[k.newer].older = k.older
	}
}

// use records that u uses the blocks of x. The blocks must have a separate extent, or x.found is none if they are not
// in host memory yet. Blocks get the rank of u, unless it is lower than their rank or u has used them before.
func (m *Memory) use(u *User, x *piece) {
	for from, end := int32(x.index), int32(x.index)+x.blocks; ; {
		first, last := u.seen.addNext(from, end)
		if first == last {
			return
		}
		from = last
		m.enter(u)
		if x.found == none {
			continue
		}
		b := x.found
		if last-first < x.blocks {
			key := x.key + Key(first-int32(x.index))
			b = m.cut(m.find(key), key, last-first)
		}
		if k := &m.all[b]; k.rank < u.marked || k.rank == u.marked && k.place > first+1 {
			m.unlink(b)
			k.place = first + 1
			m.insert(u, b)
		}
	}
}

// enter assigns a rank to u if it has none.
func (m *Memory) enter(u *User) {
	if u.mark != 0 {
		return
	}
	m.rank++
	b := m.add(extent{rank: m.rank, state: mark})
	m.link(b, none)
	u.mark, u.marked = b+1, m.rank
}

// insert sets the rank of b to that of u. b is inserted in front of the blocks of this rank that are
// earlier in the list of u.
func (m *Memory) insert(u *User, b id) {
	m.enter(u)
	k := &m.all[b]
	k.rank = u.marked
	at := m.all[u.mark-1].newer
	for at != none && m.all[at].rank == u.marked && m.all[at].place > k.place {
		at = m.all[at].newer
	}
	m.link(b, at)
}

// findPieces sets m.pieces to the blocks of u with indexes from `from` up to end that are in host memory.
func (m *Memory) findPieces(u *User, from, end int) {
	m.pieces = m.pieces[:0]
	c := cursor{user: u, at: from, end: end}
	for c.next(m) {
		if c.found != none {
			m.pieces = append(m.pieces, c.piece)
		}
	}
}

// Touch moves the idle blocks among the first blocks of u to the end of the order, the last block of its list first.
func (m *Memory) Touch(u *User, blocks int) {
	m.findPieces(u, 0, blocks)
	for i := range slices.Backward(m.pieces) {
		x := &m.pieces[i]
		b := m.find(x.key)
		if !m.all[b].isIdle() {
			continue
		}
		b = m.cut(b, x.key, x.blocks)
		m.moveLast(b)
	}
}

// moveLast moves b to the end of the order. The last block of b is then evicted before its other blocks.
func (m *Memory) moveLast(b id) {
	m.unlink(b)
	m.link(b, none)
	m.all[b].upward = false
	m.join(b)
}

// End ends u. The blocks of u that are still in host memory move to the end of the order, the last block of its list
// first.
func (m *Memory) End(u *User) {
	if u.mark == 0 {
		return
	}
	for _, r := range slices.Backward(u.seen) {
		m.findPieces(u, int(r.from), int(r.end))
		for i := range slices.Backward(m.pieces) {
			x := &m.pieces[i]
			b := m.cut(m.find(x.key), x.key, x.blocks)
			m.all[b].rank, m.all[b].place = m.rank+1, 0
			m.rank += int64(x.blocks)
			m.moveLast(b)
		}
	}
	m.unlink(u.mark - 1)
	m.drop(u.mark - 1)
	u.mark = 0
}

// run is the range of indices from from up to end.
type run struct{ from, end int32 }

// runs is a set of indices as a sorted list of ranges.
type runs []run

// addNext adds the first range of indices from `from` up to end that are missing in the set. addNext returns the
// bounds of that range, which are equal if no index is missing.
func (s *runs) addNext(from, end int32) (first, last int32) {
	all, i := *s, 0
	for i < len(all) && all[i].end < from {
		i++
	}
	first, j := from, i
	extends := i < len(all) && all[i].from <= from
	if extends {
		first, j = all[i].end, i+1
	}
	if first >= end {
		return end, end
	}
	last = end
	if j < len(all) {
		last = min(last, all[j].from)
	}
	switch joins := j < len(all) && all[j].from == last; {
	case extends && joins:
		all[i].end = all[j].end
		*s = slices.Delete(all, j, j+1)
	case extends:
		all[i].end = last
	case joins:
		all[j].from = first
	default:
		*s = slices.Insert(all, j, run{first, last})
	}
	return first, last
}
