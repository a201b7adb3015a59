package router

import (
	"cmp"
	"slices"

	"github.com/replay-llm/replay/sim"
)

// workers is the set of registered workers.
type workers struct {
	ids        []sim.WorkerID // ascending by name
	known      int            // 1 + the largest id ever registered
	registered []bool         // by id
	names      func(sim.WorkerID) uint64
}

func (s *workers) has(w sim.WorkerID) bool {
	return w >= 0 && int(w) < s.known && s.registered[w]
}

func (s *workers) nameOf(w sim.WorkerID) uint64 {
	if s.names == nil {
		return uint64(w)
	}
	return s.names(w)
}

// placeOf returns the index of w in ids, or the index at which to insert it.
func (s *workers) placeOf(w sim.WorkerID) int {
	i, _ := slices.BinarySearchFunc(s.ids, s.nameOf(w), func(at sim.WorkerID, name uint64) int { return cmp.Compare(s.nameOf(at), name) })
	return i
}

func (s *workers) add(w sim.WorkerID) error {
	if s.has(w) {
		return &WorkerError{Worker: w, Known: true}
	}
	s.known = max(s.known, int(w)+1)
	s.registered = growSlice(s.registered, s.known)
	s.registered[w] = true
	s.ids = slices.Insert(s.ids, s.placeOf(w), w)
	return nil
}

func (s *workers) remove(w sim.WorkerID) error {
	if !s.has(w) {
		return &WorkerError{Worker: w}
	}
	i := s.placeOf(w)
	s.ids = slices.Delete(s.ids, i, i+1)
	s.registered[w] = false
	return nil
}
