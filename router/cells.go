package router

import (
	"math/bits"

	"github.com/replay-llm/replay/sim"
)

// cell is the set of workers that hold all of a node. For up to 64 workers, cell has a bit per worker. For more
// workers, cell is 0 for none, 1 + the id of a single worker, or severalHold + the index of a set of cellSets. In a
// large cluster, most nodes are held by a single worker.
type cell uint64

const severalHold cell = 1 << 63

// holder returns the single worker of a cell for more than 64 workers, None if it has none or several.
func (c cell) holder() sim.WorkerID {
	if c&severalHold != 0 {
		return None
	}
	return sim.WorkerID(c) - 1
}

// cellSets is the sets of the cells with several workers.
type cellSets struct {
	words  int      // words per set; 1: cells are sets
	bits   []uint64 // by set, then by worker / 64
	count  []int32  // by set
	unused []int32
}

func newCellSets(words int) cellSets { return cellSets{words: words} }

// setOf returns the set of a cell with several workers. The set is valid until a worker is added to any cell.
func (s *cellSets) setOf(c cell) []uint64 {
	return s.bits[int(c&^severalHold)*s.words:][:s.words]
}

func (s *cellSets) has(c cell, w sim.WorkerID) bool {
	switch {
	case s.words == 1:
		return c>>(uint32(w)%64)&1 != 0
	case c&severalHold == 0:
		return c == cell(w)+1
	}
	return s.setOf(c)[uint32(w)/64]>>(uint32(w)%64)&1 != 0
}

// add adds a worker to a cell. add reports false if the worker is already in the cell.
func (s *cellSets) add(c *cell, w sim.WorkerID) bool {
	switch {
	case s.has(*c, w):
		return false
	case s.words == 1:
		*c |= 1 << (uint32(w) % 64)
		return true
	case *c == 0:
		*c = cell(w) + 1
		return true
	case *c&severalHold == 0:
		first := c.holder()
		*c = s.makeSet()
		s.put(*c, first)
	}
	s.put(*c, w)
	return true
}

// makeSet returns a cell with an empty set.
func (s *cellSets) makeSet() cell {
	if k := len(s.unused); k > 0 {
		i := s.unused[k-1]
		s.unused = s.unused[:k-1]
		return severalHold | cell(i)
	}
	s.count = append(s.count, 0)
	s.bits = append(s.bits, make([]uint64, s.words)...)
	return severalHold | cell(len(s.count)-1)
}

// put adds a worker to a set that does not have it.
func (s *cellSets) put(c cell, w sim.WorkerID) {
	s.setOf(c)[uint32(w)/64] |= 1 << (uint32(w) % 64)
	s.count[c&^severalHold]++
}

// remove removes a worker from a cell. remove reports false if the worker is not in the cell.
func (s *cellSets) remove(c *cell, w sim.WorkerID) bool {
	switch {
	case !s.has(*c, w):
		return false
	case s.words == 1:
		*c &^= 1 << (uint32(w) % 64)
		return true
	case *c&severalHold == 0:
		*c = 0
		return true
	}
	set := s.setOf(*c)
	set[uint32(w)/64] &^= 1 << (uint32(w) % 64)
	i := int32(*c &^ severalHold)
	if s.count[i]--; s.count[i] > 1 {
		return true
	}
	for word, x := range set {
		if x != 0 {
			*c = cell(64*word+bits.TrailingZeros64(x)) + 1
			set[word] = 0
		}
	}
	s.count[i], s.unused = 0, append(s.unused, i)
	return true
}

// copyCell returns a cell with the workers of a cell of from, which has fewer words per set.
func (s *cellSets) copyCell(from *cellSets, c cell) (to cell) {
	switch {
	case from.words == 1:
		for x := uint64(c); x != 0; x &= x - 1 {
			s.add(&to, sim.WorkerID(bits.TrailingZeros64(x)))
		}
		return to
	case c&severalHold == 0:
		return c
	}
	to = s.makeSet()
	copy(s.setOf(to), from.setOf(c))
	s.count[to&^severalHold] = from.count[c&^severalHold]
	return to
}
