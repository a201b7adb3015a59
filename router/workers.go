package router

import (
	"slices"

	"github.com/replay-llm/replay/sim"
)

// workers is the set of registered workers.
type workers struct {
	ids   []sim.WorkerID // ascending
	known int            // 1 + the largest id ever registered
}

func (s *workers) has(w sim.WorkerID) bool {
	_, ok := slices.BinarySearch(s.ids, w)
	return ok
}

func (s *workers) add(w sim.WorkerID) error {
	i, ok := slices.BinarySearch(s.ids, w)
	if ok {
		return &WorkerError{Worker: w, Known: true}
	}
	s.ids = slices.Insert(s.ids, i, w)
	s.known = max(s.known, int(w)+1)
	return nil
}

func (s *workers) remove(w sim.WorkerID) error {
	i, ok := slices.BinarySearch(s.ids, w)
	if !ok {
		return &WorkerError{Worker: w}
	}
	s.ids = slices.Delete(s.ids, i, i+1)
	return nil
}
