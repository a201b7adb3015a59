package router

import (
	"math/bits"

	"github.com/replay-llm/replay/sim"
)

// scores holds a number of blocks for each worker.
type scores struct {
	by  []int32 // by worker; all 0 while max is
	max int32   // over everything scored, workers that are not candidates included
}

func (s *scores) grow(workers int) {
	for len(s.by) < workers {
		s.by = append(s.by, 0)
	}
}

func (s *scores) raise(w sim.WorkerID, blocks int32) {
	s.by[w] = max(s.by[w], blocks)
	s.max = max(s.max, blocks)
}

// raiseAll raises the workers whose bits are set in a word.
func (s *scores) raiseAll(word int, set uint64, blocks int32) {
	if set == 0 {
		return
	}
	s.max = max(s.max, blocks)
	by := s.by[word*64:]
	for ; set != 0; set &= set - 1 {
		i := bits.TrailingZeros64(set)
		by[i] = max(by[i], blocks)
	}
}

func (s *scores) clear() {
	if s.max > 0 {
		clear(s.by)
		s.max = 0
	}
}
