package router

import (
	"github.com/replay-llm/replay/internal/heap"
	"github.com/replay-llm/replay/sim"
)

// queue holds requests back, the one with the largest key first and, among
// equals, the one that came first.
type queue struct {
	heap  heap.Heap[float64, uint64, held] // by the key, negated, and the number among all that were held
	count uint64                           // requests ever held
	spare [][]credit                       // overlaps of requests that have left
}

// held is a request held back, with what was known when it arrived.
type held struct {
	request *sim.Request
	overlap []credit
}

// credit is a worker's overlap in blocks, > 0.
type credit struct {
	worker sim.WorkerID
	blocks int32
}

// push holds a request back and freezes its overlaps.
func (q *queue) push(r *sim.Request, key float64, s *scores) {
	var overlap []credit
	if k := len(q.spare); k > 0 {
		overlap, q.spare = q.spare[k-1][:0], q.spare[:k-1]
	}
	s.spread()
	for w, blocks := range s.by {
		if blocks > 0 {
			overlap = append(overlap, credit{sim.WorkerID(w), blocks})
		}
	}
	q.heap.Push(-key, q.count, held{r, overlap})
	q.count++
}

// pop takes the first request off and puts its overlaps into s.
func (q *queue) pop(s *scores) *sim.Request {
	first := q.heap.Pop().Value
	for _, c := range first.overlap {
		s.raise(c.worker, c.blocks)
	}
	q.spare = append(q.spare, first.overlap)
	return first.request
}

// remove takes a request off wherever it is.
func (q *queue) remove(id sim.RequestID) {
	q.heap.Filter(func(h heap.Item[float64, uint64, held]) bool {
		if h.Value.request.ID != id {
			return true
		}
		q.spare = append(q.spare, h.Value.overlap)
		return false
	})
}
