package loadgen

import "github.com/replay-llm/replay/sim/prompt"

// NewSessionFeed returns the feed of sessions for any w.
func NewSessionFeed(w *Workload, prompts *prompt.List, a Admission) *Feed {
	return newFeed(requests{w: w, prompts: prompts}, newTimes(w, a), a, false)
}

// NewFlatFeed returns the feed of requests that do not wait for each other for w,
// whatever w is.
func NewFlatFeed(w *Workload, prompts *prompt.List, a Admission) *Feed {
	return newFeed(requests{w: w, prompts: prompts}, newTimes(w, a), a, true)
}
