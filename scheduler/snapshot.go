package scheduler

import "github.com/replay-llm/replay/sim"

// Snapshot is what a planner sees of one forward pass (vllm-scheduler.md 4.5,
// sglang-scheduler.md 4.6). Lengths are tokens.
type Snapshot struct {
	Worker  int
	Seconds float64 // length of the pass

	Prefill       Group // requests with prompt tokens to compute; over prompt lengths, Sum over tokens computed
	PrefillCached int   // Σ prompt tokens of these that were there before
	Decode        Group // requests that only decoded
	QueuedPrefill Group // waiting, never run
	QueuedDecode  Group // waiting after they have lost their place
}

// Group is a number of requests and a quantity over them.
type Group struct {
	Requests int
	Sum      int
	Variance float64 // population variance
}

// Welford adds up a population variance as the reference does.
type Welford struct {
	n        int
	mean, m2 float64
}

// Add takes in one value.
func (w *Welford) Add(v float64) {
	w.n++
	d := v - w.mean
	w.mean += d / float64(w.n)
	w.m2 += float64(d * (v - w.mean))
}

// Variance is the population variance of the values so far, 0 when there are
// none.
func (w *Welford) Variance() float64 {
	if w.n == 0 {
		return 0
	}
	return w.m2 / float64(w.n)
}

// Snapshotter is a core that can tell a planner what its latest pass did. It
// must have been built to keep what that takes, and then takes one pass at a
// time.
type Snapshotter interface {
	Snapshot(p *Pass) Snapshot
}

// Progresser is a core that can tell how far the requests on it have come.
type Progresser interface {
	// Progress yields every request that has gained a token and not its last,
	// with the number of its tokens and the instant of the latest.
	Progress(yield func(id sim.RequestID, tokens int, last sim.Time))
}
