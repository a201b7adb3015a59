package host

import "slices"

// order is the order of eviction, the next one first. By the rules of 0.24 it has the idle blocks. By those of 0.33 it has
// all, by rank; the blocks that a user has stored or read have its rank, the last of its list first, until it ends.
type order struct {
	oldest, newest id
	rank           int64
}

// link puts b before another in order, or last before none.
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

// unlink takes b out of the order.
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

// use notes that u uses the blocks of x. The blocks have a separate extent or, as none, are not there yet. They have the rank of
// u from now on, unless it is lower than their rank or u has used them before.
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

// enter gives u a rank, unless it has one.
func (m *Memory) enter(u *User) {
	if u.mark != 0 {
		return
	}
	m.rank++
	b := m.add(extent{rank: m.rank, state: mark})
	m.link(b, none)
	u.mark, u.marked = b+1, m.rank
}

// insert puts b among the blocks that have the rank of u, behind the blocks that come later in the list of u.
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

// findPieces fills m.pieces with the blocks of u from the first one on and before the end that are there.
func (m *Memory) findPieces(u *User, from, end int) {
	m.pieces = m.pieces[:0]
	c := cursor{user: u, at: from, end: end}
	for c.next(m) {
		if c.found != none {
			m.pieces = append(m.pieces, c.piece)
		}
	}
}

// Touch moves the idle ones of the first blocks of u behind all other blocks, the last of its list first.
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

// moveLast makes b, which is in order, the last, and its last block the one that is evicted first.
func (m *Memory) moveLast(b id) {
	m.unlink(b)
	m.link(b, none)
	m.all[b].upward = false
	m.join(b)
}

// End ends u: those of its blocks that are still in host memory come behind all other blocks, the last of its list first.
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

// run is the indices from one on and before another.
type run struct{ from, end int32 }

// runs is a set of indices, in order.
type runs []run

// addNext adds to the set the first indices from one on and before an end that are not in it and follow one another. It returns the
// first and the end of these, which are the same where all are in it.
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
