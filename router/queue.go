package router

import (
	"slices"

	"github.com/replay-llm/replay/sim"
)

// queue holds requests back, the one with the largest key first and, among
// equals, the one that came first.
type queue struct {
	heap  []held
	count uint64     // requests ever held
	spare [][]credit // overlaps of requests that have left
}

// held is a request held back, with what was known when it arrived.
type held struct {
	key     float64
	number  uint64 // of the request among all that were held
	request *sim.Request
	overlap []credit
}

// credit is a worker's overlap in blocks, > 0.
type credit struct {
	worker sim.WorkerID
	blocks int32
}

func (a *held) before(b *held) bool {
	if a.key != b.key {
		return a.key > b.key
	}
	return a.number < b.number
}

// push holds a request back and freezes its overlaps.
func (q *queue) push(r *sim.Request, key float64, s *scores) {
	var overlap []credit
	if k := len(q.spare); k > 0 {
		overlap, q.spare = q.spare[k-1][:0], q.spare[:k-1]
	}
	for w, blocks := range s.by {
		if blocks > 0 {
			overlap = append(overlap, credit{sim.WorkerID(w), blocks})
		}
	}
	q.heap = append(q.heap, held{key: key, number: q.count, request: r, overlap: overlap})
	q.count++
	for i := len(q.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !q.heap[i].before(&q.heap[up]) {
			break
		}
		q.heap[i], q.heap[up] = q.heap[up], q.heap[i]
		i = up
	}
}

// pop takes the first request off and puts its overlaps into s.
func (q *queue) pop(s *scores) *sim.Request {
	first := q.heap[0]
	last := len(q.heap) - 1
	q.heap[0] = q.heap[last]
	q.heap[last] = held{}
	q.heap = q.heap[:last]
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			break
		}
		if down+1 < last && q.heap[down+1].before(&q.heap[down]) {
			down++
		}
		if !q.heap[down].before(&q.heap[i]) {
			break
		}
		q.heap[i], q.heap[down] = q.heap[down], q.heap[i]
		i = down
	}
	for _, c := range first.overlap {
		s.raise(c.worker, c.blocks)
	}
	q.spare = append(q.spare, first.overlap)
	return first.request
}

// sorted is a copy of what is held, first to last.
func (q *queue) sorted() []held {
	s := slices.Clone(q.heap)
	slices.SortFunc(s, func(a, b held) int {
		if a.before(&b) {
			return -1
		}
		return 1
	})
	return s
}
