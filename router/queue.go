package router

import (
	"github.com/replay-llm/replay/internal/heap"
	"github.com/replay-llm/replay/sim"
)

// queue is the held requests. The request with the largest key is first, and among equals the earliest.
type queue struct {
	heap  heap.Heap[float64, uint64, held] // by the negated key, then by the number of the request
	count uint64                           // number of requests that were ever held
	spare [][]credit                       // free lists of overlaps
}

// held is a held request with its overlaps at arrival.
type held struct {
	request *sim.Request
	overlap []credit
}

// credit is the overlap of a worker in blocks, > 0.
type credit struct {
	worker sim.WorkerID
	blocks int32
}

// push adds a request with its current overlaps.
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

// pop removes the first request and adds its overlaps to s.
func (q *queue) pop(s *scores) *sim.Request {
	first := q.heap.Pop().Value
	for _, c := range first.overlap {
		s.raise(c.worker, c.blocks)
	}
	q.spare = append(q.spare, first.overlap)
	return first.request
}

// remove removes a request.
func (q *queue) remove(id sim.RequestID) {
	q.heap.Filter(func(h heap.Item[float64, uint64, held]) bool {
		if h.Value.request.ID != id {
			return true
		}
		q.spare = append(q.spare, h.Value.overlap)
		return false
	})
}
