package host

// order is the order of eviction, the next one first. By the rules of 0.24 it has the idle blocks. By those of 0.33 it has
// all, by rank; those that a user has stored or read have its rank, the last of its list first, until it ends.
type order struct {
	oldest, newest ID
	rank           int64
}

// link puts b before another in order, or last before None.
func (m *Memory) link(b, before ID) {
	k := &m.all[b]
	k.newer = before
	if before == None {
		k.older, m.newest = m.newest, b
	} else {
		k.older, m.all[before].older = m.all[before].older, b
	}
	if k.older == None {
		m.oldest = b
	} else {
		m.all[k.older].newer = b
	}
}

// unlink takes b out of the order.
func (m *Memory) unlink(b ID) {
	k := &m.all[b]
	if k.older == None {
		m.oldest = k.newer
	} else {
		m.all[k.older].newer = k.newer
	}
	if k.newer == None {
		m.newest = k.older
	} else {
		m.all[k.newer].older = k.older
	}
}

// moveLast makes b, which is in order, the last.
func (m *Memory) moveLast(b ID) {
	if m.newest != b {
		m.unlink(b)
		m.link(b, None)
	}
}

// use notes that u uses block i, which is at b or, as None, not there yet. It has the rank of u from now on, unless that is
// lower than its own or u has used it before.
func (m *Memory) use(u *User, i int, b ID) {
	if !u.see(i) {
		return
	}
	m.enter(u)
	if b == None {
		return
	}
	if k := &m.all[b]; k.rank < u.marked || k.rank == u.marked && k.place > int32(i+1) {
		m.unlink(b)
		k.place = int32(i + 1)
		m.insert(u, b)
	}
}

// enter gives u a rank, unless it has one.
func (m *Memory) enter(u *User) {
	if u.mark != 0 {
		return
	}
	m.rank++
	b := m.takePlace()
	m.all[b] = block{rank: m.rank, state: mark}
	m.link(b, None)
	u.mark, u.marked = b+1, m.rank
}

// insert puts b among the blocks that have the rank of u, behind those that come later in the list of u.
func (m *Memory) insert(u *User, b ID) {
	m.enter(u)
	k := &m.all[b]
	k.rank = u.marked
	at := m.all[u.mark-1].newer
	for at != None && m.all[at].rank == u.marked && m.all[at].place > k.place {
		at = m.all[at].newer
	}
	m.link(b, at)
}

// Touch moves the idle ones of the first blocks of u behind all others, the last of its list first.
func (m *Memory) Touch(u *User, blocks int) {
	for i := blocks - 1; i >= 0; i-- {
		key, entries, _ := m.span(u, i, blocks)
		if b := m.placeIn(key, entries, 0); b != None && m.all[b].isIdle() {
			m.moveLast(b)
		}
	}
}

// End ends u: those of its blocks that are still in host memory come behind all others, the last of its list first.
func (m *Memory) End(u *User) {
	if u.mark == 0 {
		return
	}
	for i := 64*len(u.seen) - 1; i >= 0; i-- {
		if u.seen[i/64]>>(i%64)&1 == 0 {
			continue
		}
		key, entries, _ := m.span(u, i, i+1)
		if b := m.placeIn(key, entries, 0); b != None {
			m.rank++
			m.all[b].rank, m.all[b].place = m.rank, 0
			m.moveLast(b)
		}
	}
	b := u.mark - 1
	m.unlink(b)
	m.all[b].state = unused
	m.free = append(m.free, b)
	u.mark = 0
}
