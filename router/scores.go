package router

import (
	"math/bits"

	"github.com/replay-llm/replay/sim"
)

// scores holds a number of blocks for each worker.
type scores struct {
	by  []int32 // by worker; all 0 while max is
	top []int32 // by group of workers: the most of any
	max int32   // over everything scored, workers that are not candidates included
}

func (s *scores) grow(workers int) {
	s.by = growSlice(s.by, workers)
	s.top = growSlice(s.top, (workers+GroupSize-1)/GroupSize)
}

func (s *scores) raise(w sim.WorkerID, blocks int32) {
	s.by[w] = max(s.by[w], blocks)
	s.top[w/GroupSize] = max(s.top[w/GroupSize], blocks)
	s.max = max(s.max, blocks)
}

// raiseAll raises the workers whose bits are set in a word.
func (s *scores) raiseAll(word int, set uint64, blocks int32) {
	if set == 0 {
		return
	}
	s.max = max(s.max, blocks)
	s.top[word] = max(s.top[word], blocks)
	by := s.by[word*64:]
	for ; set != 0; set &= set - 1 {
		i := bits.TrailingZeros64(set)
		by[i] = max(by[i], blocks)
	}
}

// raiseMatches raises the workers that cache blocks. Workers are looked up under
// rank 0; what other ranks have counts in the maximum only.
func (s *scores) raiseMatches(found []Match) {
	for _, m := range found {
		if m.Member.Rank == 0 {
			s.raise(m.Member.Worker, m.Blocks)
		}
		s.max = max(s.max, m.Blocks)
	}
}

func (s *scores) clear() {
	if s.max > 0 {
		clear(s.by)
		clear(s.top)
		s.max = 0
	}
}
