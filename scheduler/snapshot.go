package scheduler

import "github.com/replay-llm/replay/sim"

// Snapshot is the view of a planner on one forward pass (docs/rules/vllm.md and docs/rules/sglang.md). Lengths are
// tokens.
type Snapshot struct {
	Worker  int
	Seconds float64 // length of the pass

	Prefill       Group // requests with prompt tokens to compute; over prompt lengths, Sum over tokens computed
	PrefillCached int   // Σ prompt tokens of these that were there before
	Decode        Group // requests that only decoded
	QueuedPrefill Group // waiting, never run
	QueuedDecode  Group // waiting after they have lost their place
}

// AddQueued takes in a request that waits: for the first time, or with the tokens that it had
// gained when it lost its place.
func (s *Snapshot) AddQueued(r *sim.Request, gained int) {
	if gained > 0 {
		n := r.InputTokens + gained
		s.QueuedDecode.Add(n, float64(n))
	} else {
		s.QueuedPrefill.Add(r.InputTokens, float64(r.InputTokens))
	}
}

// Group is a number of requests and a quantity over them.
type Group struct {
	Requests int
	Sum      int
	Variance float64 // population variance
	mean, m2 float64 // of what Variance is over, added up as the reference does
}

// Add takes in a request: n of the group's sum, and x of what its variance is
// over.
func (g *Group) Add(n int, x float64) {
	g.Requests++
	g.Sum += n
	d := x - g.mean
	g.mean += d / float64(g.Requests)
	g.m2 += float64(d * (x - g.mean))
	g.Variance = g.m2 / float64(g.Requests)
}
