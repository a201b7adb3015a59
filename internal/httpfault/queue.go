package httpfault

import "sync"

// Queue counts requests in flight and applies the queue limits of an injector as vLLM does. A group is a set of
// requests for one prompt. All requests of a group are admitted or rejected together.
type Queue[Group comparable] struct {
	Injector *Injector
	Rejected func(reason string) // counts a rejection

	mu       sync.Mutex
	requests int                 // number of requests in flight
	tokens   int                 // prompt tokens of requests without a first token
	groups   map[Group]*decision // groups with requests that have not arrived yet
}

// decision is the decision about the requests of a group.
type decision struct {
	left   int    // number of requests that have not arrived yet
	reason string // reason of the rejection; "": admitted
}

// Enter counts a request of a group of size requests with prompt tokens each. Enter returns the reason of a
// rejection, or "".
func (q *Queue[Group]) Enter(group Group, size, prompt int) (reason string) {
	f := q.Injector.Faults()
	q.mu.Lock()
	defer q.mu.Unlock()
	d := q.groups[group]
	if d == nil {
		d = &decision{left: size}
		switch {
		case f.MaxQueuedRequests > 0 && q.requests+size > f.MaxQueuedRequests:
			d.reason = "max_num_queued_reqs"
		case f.MaxQueuedTokens > 0 && q.tokens >= f.MaxQueuedTokens:
			d.reason = "max_num_queued_tokens"
		}
		if d.reason == "" {
			q.requests, q.tokens = q.requests+size, q.tokens+size*prompt
		} else {
			q.Rejected(d.reason)
		}
		if q.groups == nil {
			q.groups = map[Group]*decision{}
		}
		q.groups[group] = d
	}
	if d.left--; d.left == 0 {
		delete(q.groups, group)
	}
	return d.reason
}

// Leave subtracts finished requests, and prompt tokens of requests with a first token.
func (q *Queue[Group]) Leave(requests, tokens int) {
	q.mu.Lock()
	q.requests, q.tokens = q.requests-requests, q.tokens-tokens
	q.mu.Unlock()
}
