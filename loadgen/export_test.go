package loadgen

import "github.com/replay-llm/replay/sim/prompt"

// NewSessionFeed returns the driver of sessions for w, whatever w is.
func NewSessionFeed(w *Workload, prompts *prompt.List, a Admission) Feed {
	return newSessionDriver(requests{w: w, prompts: prompts}, newTimes(w, a), a)
}

// NewFlatFeed returns the flat queue for w, whatever w is.
func NewFlatFeed(w *Workload, prompts *prompt.List, a Admission) Feed {
	return newFlatQueue(requests{w: w, prompts: prompts}, newTimes(w, a), a)
}
