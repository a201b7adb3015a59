package sglang

import "github.com/replay-llm/replay/sim"

// request is a request's place in the core.
//
// While it runs, each decode step gives it one token, so out and stored are
// those of decode step base and the core adds the steps since.
type request struct {
	*sim.Request
	seq    sequence
	maxOut int

	out    int   // tokens generated, at base
	stored int   // tokens whose KV cache it holds, at base; all of them in decode
	base   int64 // decode step
	epoch  int32 // counts its entries into the line of running requests and exits; older events are void

	node   int32 // tree node it has locked, or root
	prot   int   // tokens down to node
	cached int   // tokens it has put into the tree itself, whole pages
	hit    int   // tokens found at its first admission, -1 before

	rank    int   // what the queue is sorted by, highest first
	place   int   // in the line of running requests, or notRunning
	gone    bool  // it has left the sums over running requests, and soon the line
	joined  int64 // decode step after which it began to run
	clipped bool  // more output is left than memory is reserved for
	// growing is true once it caches its pages in decode: all it holds, those after
	// prot in pages that are not in the tree yet but count as if they were.
	growing bool
	// stamped is the tick of its last walk over the tree as of decode step
	// stampedAt; later walks follow from its place.
	stamped   int64
	stampedAt int64
	lastToken sim.Time // the end of its last token, while it does not run
}

const notRunning = -1

// length returns the number of tokens of prompt and output, for a request that does
// not run.
func (r *request) length() int { return r.InputTokens + r.out }

// left returns the output still to come, for a request that does not run.
func (r *request) left() int { return max(0, r.maxOut-r.out) }

// queue is the line of waiting requests.
type queue struct {
	items []*request
	head  int
}

func (q *queue) len() int            { return len(q.items) - q.head }
func (q *queue) front() *request     { return q.items[q.head] }
func (q *queue) all() []*request     { return q.items[q.head:] }
func (q *queue) pushBack(r *request) { q.items = append(q.items, r) }

func (q *queue) popFront() *request {
	r := q.items[q.head]
	q.items[q.head] = nil
	q.head++
	switch {
	case q.head == len(q.items):
		q.items, q.head = q.items[:0], 0
	case q.head >= 64 && 2*q.head >= len(q.items):
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	return r
}

func (q *queue) pushFront(r *request) {
	if q.head == 0 {
		gap := max(8, len(q.items)/2)
		n := len(q.items)
		for range gap {
			q.items = append(q.items, nil)
		}
		copy(q.items[gap:], q.items[:n])
		clear(q.items[:gap])
		q.head = gap
	}
	q.head--
	q.items[q.head] = r
}
