package loadgen

import "github.com/replay-llm/replay/sim/prompt"

// NewSessionFeed returns a feed with sessions for any workload.
func NewSessionFeed(w *Workload, prompts *prompt.List, a Admission) *Feed {
	return newFeed(requests{w: w, prompts: prompts}, newTimes(w, a), a, false)
}

// NewFlatFeed returns a feed without dependencies between requests for any workload.
func NewFlatFeed(w *Workload, prompts *prompt.List, a Admission) *Feed {
	return newFeed(requests{w: w, prompts: prompts}, newTimes(w, a), a, true)
}
