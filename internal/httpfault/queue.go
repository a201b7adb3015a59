package httpfault

import "sync"

// Queue counts requests that are in flight, and applies the queue limits of an injector as vLLM does. Groups of requests
// that are the answers to one prompt are admitted or rejected together.
type Queue[Group comparable] struct {
	Injector *Injector
	Rejected func(reason string) // counts a rejection

	mu       sync.Mutex
	requests int                 // in flight
	tokens   int                 // of prompts without a first token
	groups   map[Group]*decision // of groups with requests that have not come yet
}

// decision is what happens to the requests of a group.
type decision struct {
	left   int    // requests that have not come yet
	reason string // why they are rejected; "": they are not
}

// Enter counts one of size requests of a group, each with a prompt, or returns why it is rejected.
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

// Leave ends the count of requests, and of tokens of prompts.
func (q *Queue[Group]) Leave(requests, tokens int) {
	q.mu.Lock()
	q.requests, q.tokens = q.requests-requests, q.tokens-tokens
	q.mu.Unlock()
}
