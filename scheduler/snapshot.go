package scheduler

import "github.com/replay-llm/replay/sim"

// Snapshot is a planner's view of one forward pass (docs/rules/vllm.md and docs/rules/sglang.md). Lengths are tokens.
type Snapshot struct {
	Worker  int
	Seconds float64 // duration of the pass

	Prefill       Group // requests with prompt tokens to compute: Variance is of prompt lengths, and Sum is of computed tokens
	PrefillCached int   // Σ prompt tokens of these requests that were cached
	Decode        Group // requests that only decoded
	QueuedPrefill Group // waiting requests that never ran
	QueuedDecode  Group // waiting requests that were preempted
}

// AddQueued adds a waiting request. The request either never ran, or was preempted after it gained the given number
// of tokens.
func (s *Snapshot) AddQueued(r *sim.Request, gained int) {
	if gained > 0 {
		n := r.InputTokens + gained
		s.QueuedDecode.Add(n, float64(n))
	} else {
		s.QueuedPrefill.Add(r.InputTokens, float64(r.InputTokens))
	}
}

// Group is a number of requests with the sum and the variance of a quantity.
type Group struct {
	Requests int
	Sum      int
	Variance float64 // population variance
	mean, m2 float64 // mean and sum of squared deviations of the values of Variance, accumulated in the order of the reference
}

// Add adds a request, n to the sum and x to the values of the variance.
func (g *Group) Add(n int, x float64) {
	g.Requests++
	g.Sum += n
	d := x - g.mean
	g.mean += d / float64(g.Requests)
	g.m2 += float64(d * (x - g.mean))
	g.Variance = g.m2 / float64(g.Requests)
}
