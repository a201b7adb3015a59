package router

import (
	"math/bits"

	"github.com/replay-llm/replay/sim"
)

// scores is a number of blocks for each worker. For more than 64 workers, scores is a Sparse, and after spread a
// column.
type scores struct {
	Sparse
	max  int32 // maximum over all workers, including workers that are not candidates
	many bool  // there are more than 64 workers
}

// Sparse is a number of blocks for each worker, for policies that do not read all of them: see Needs.Sparse.
type Sparse struct {
	by      []int32        // by worker; 0 for workers that are not in listed
	listed  []sim.WorkerID // workers with blocks in by
	shared  int32          // minimum number of blocks of each of sharers
	sharers []uint64       // a set with a bit per worker, in the memory of a cell; nil: no large set
}

// Listed returns the workers that may have more blocks than the sharers, in any order.
func (s *Sparse) Listed() []sim.WorkerID { return s.listed }

// IsListed reports whether a worker is listed.
func (s *Sparse) IsListed(w sim.WorkerID) bool { return s.by[w] > 0 }

// Sharers returns a large set of workers, with a bit per worker, and the minimum number of blocks of each. If there
// is no such set, Sharers returns nil and 0.
func (s *Sparse) Sharers() ([]uint64, int32) { return s.sharers, s.shared }

// On returns the blocks of a worker.
func (s *Sparse) On(w sim.WorkerID) int32 {
	if s.sharers != nil && s.sharers[uint32(w)/64]>>(uint32(w)%64)&1 != 0 {
		return max(s.by[w], s.shared)
	}
	return s.by[w]
}

func (s *scores) grow(workers int) {
	s.by, s.many = growSlice(s.by, workers), workers > 64
}

func (s *scores) raise(w sim.WorkerID, blocks int32) {
	s.max = max(s.max, blocks)
	if at := &s.by[w]; blocks > *at {
		if *at == 0 && s.many {
			s.listed = append(s.listed, w)
		}
		*at = blocks
	}
}

// raiseAll raises the workers of the bits of a word.
func (s *scores) raiseAll(word int, set uint64, blocks int32) {
	if set == 0 {
		return
	}
	s.max = max(s.max, blocks)
	by := s.by[word*64:]
	for ; set != 0; set &= set - 1 {
		i := bits.TrailingZeros64(set)
		if by[i] == 0 && s.many {
			s.listed = append(s.listed, sim.WorkerID(64*word+i))
		}
		by[i] = max(by[i], blocks)
	}
}

// fewSharers is the size up to which the workers of a set are listed.
const fewSharers = 16

// raiseSet raises the workers of a set with more than one word. The first large set is kept as sharers. Sets that are
// raised later have more blocks.
func (s *scores) raiseSet(set []uint64, blocks int32) {
	if blocks == 0 {
		return
	}
	count := 0
	for _, word := range set {
		count += bits.OnesCount64(word)
	}
	if count > fewSharers && s.sharers == nil {
		s.sharers, s.shared = set, blocks
		s.max = max(s.max, blocks)
		return
	}
	for i, word := range set {
		s.raiseAll(i, word, blocks)
	}
}

// spread writes the blocks of each worker to the column.
func (s *scores) spread() {
	set, blocks := s.sharers, s.shared
	s.sharers, s.shared = nil, 0
	for i, word := range set {
		s.raiseAll(i, word, blocks)
	}
}

// raiseMatches raises the workers that cache blocks. Only rank 0 counts for a worker; other ranks count only for the
// maximum.
func (s *scores) raiseMatches(found []Match) {
	for _, m := range found {
		if m.Member.Rank == 0 {
			s.raise(m.Member.Worker, m.Blocks)
		}
		s.max = max(s.max, m.Blocks)
	}
}

func (s *scores) clear() {
	if s.max == 0 {
		return
	}
	s.max = 0
	if !s.many {
		clear(s.by)
		return
	}
	for _, w := range s.listed {
		s.by[w] = 0
	}
	s.listed, s.sharers, s.shared = s.listed[:0], nil, 0
}
