package trtllm

import (
	"cmp"
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/lockstep"
	"github.com/replay-llm/replay/sim"
)

// gate controls whether ranks compute prompts in the pass that they plan.
type gate struct{ open bool }

// Ranks is a worker with data-parallel attention: engines in lockstep. New requests are assigned to ranks by their
// prompt lengths.
type Ranks struct {
	*lockstep.Core
	ranks   []*Core
	balance Balance
	gate    gate
	fresh   []*sim.Request // requests that are not assigned to a rank yet, in order
	spread  []*sim.Request
	counts  []int // number of active requests by rank
	tokens  []int // prompt tokens of active requests by rank
	chosen  int   // the rank for the submitted request
	waited  int   // consecutive plans in which prompts waited for prompts of other ranks
	batched int   // consecutive plans in which prompts of all ranks waited for more prompts
}

// NewRanks returns an idle worker of n engines in lockstep, each with configuration c.
func NewRanks(c Config, n int, b Balance) (*Ranks, error) {
	w := &Ranks{balance: b, gate: gate{open: true}, counts: make([]int, n), tokens: make([]int, n)}
	var ranks []lockstep.Rank
	var planners []lockstep.Planner
	for range n {
		core, err := New(c)
		if err != nil {
			return nil, err
		}
		core.gate = &w.gate
		w.ranks = append(w.ranks, core)
		ranks, planners = append(ranks, core), append(planners, core)
	}
	w.Core = lockstep.New(ranks, lockstep.Options{Clock: c.Clock, Balancer: w, Planners: planners})
	return w, nil
}

// Choose returns the rank for the submitted request.
func (w *Ranks) Choose(*sim.Request) int { return w.chosen }

// Submit queues r, which is not assigned to a rank yet.
func (w *Ranks) Submit(r *sim.Request) {
	i := len(w.fresh)
	for w.ranks[0].ByPriority && i > 0 && w.fresh[i-1].Priority > r.Priority {
		i--
	}
	w.fresh = slices.Insert(w.fresh, i, r)
}

// Load returns the number of submitted requests that are not finished.
func (w *Ranks) Load() int { return len(w.fresh) + w.Core.Load() }

// Cancel removes a request from the queue or from its rank.
func (w *Ranks) Cancel(now sim.Time, id sim.RequestID, p *scheduler.Pass) bool {
	for i, r := range w.fresh {
		if r.ID == id {
			p.Reset(now)
			w.fresh = slices.Delete(w.fresh, i, i+1)
			return true
		}
	}
	return w.Core.Cancel(now, id, p)
}

// Step runs the pass that starts at now on all ranks.
func (w *Ranks) Step(now, until sim.Time, p *scheduler.Pass) error {
	w.spreadRequests()
	w.gate.open = !w.balance.On || w.computesPrompts()
	return w.Core.Step(now, until, p)
}

// spreadRequests assigns queued requests to ranks, up to MaxBatch active requests per rank. Requests with longer
// prompts are assigned first. Each request goes to the rank with the fewest prompt tokens, among the ranks with fewer
// requests than the mean.
func (w *Ranks) spreadRequests() {
	active, most, seats := 0, 0, 0
	for i, c := range w.ranks {
		w.counts[i], w.tokens[i] = c.live, 0
		for _, r := range c.active {
			w.tokens[i] += r.InputTokens
		}
		active, most, seats = active+c.live, max(most, c.live), seats+c.MaxBatch
	}
	n := min(len(w.fresh), max(0, seats-active))
	if n == 0 {
		return
	}
	expected := max((active+n+len(w.ranks)-1)/len(w.ranks), most)
	w.spread = append(w.spread[:0], w.fresh[:n]...)
	w.fresh = slices.Delete(w.fresh, 0, n)
	slices.SortStableFunc(w.spread, func(a, b *sim.Request) int { return cmp.Compare(b.InputTokens, a.InputTokens) })
	for _, r := range w.spread {
		w.chosen = -1
		for i := range w.ranks {
			if w.counts[i] < expected && (w.chosen < 0 || cmp.Or(cmp.Compare(w.tokens[i], w.tokens[w.chosen]), cmp.Compare(w.counts[i], w.counts[w.chosen])) < 0) {
				w.chosen = i
			}
		}
		w.counts[w.chosen]++
		w.tokens[w.chosen] += r.InputTokens
		w.Core.Submit(r)
	}
}

// computesPrompts reports whether the ranks compute prompts in the next plan. Ranks compute prompts if all ranks have
// prompts, or if prompts have waited long enough.
func (w *Ranks) computesPrompts() bool {
	prompts, answers, full := 0, 0, false
	for _, c := range w.ranks {
		x, y := c.countWork()
		if x > 0 {
			prompts++
		}
		if y > 0 {
			answers++
		}
		full = full || y >= c.MaxBatch
	}
	all := len(w.ranks)
	if prompts == all && !full {
		w.waited = 0
		if answers == all && w.batched < w.balance.WaitIters {
			w.batched++
			return false
		}
		w.batched = 0
		return true
	}
	if prompts > 0 && answers == all && w.waited < w.balance.TimeoutIters {
		w.waited++
		return false
	}
	w.waited = 0
	return true
}

// countWork returns the numbers of requests that compute prompts and answers, in the current state.
func (c *Core) countWork() (prompts, answers int) {
	for _, r := range c.active {
		switch {
		case r.arrived:
		case r.state == inContext:
			prompts++
		case r.state == generating:
			answers++
		}
	}
	for _, r := range c.line.All() {
		if !r.arrived {
			prompts++
		}
	}
	return prompts, answers
}

// Planned reports whether the next pass is planned.
func (c *Core) Planned() bool { return c.next.planned }

// CopyTime returns how long the current pass waits for copies to and from host memory, in ms.
func (c *Core) CopyTime(now sim.Time) float64 { return c.next.wait(now) }

// Wait begins a pass on a rank that takes no part in it and waits for the other ranks.
func (c *Core) Wait(now sim.Time, p *scheduler.Pass) float64 {
	c.openPass(now, p)
	if c.live > 0 && !c.next.planned {
		c.planDuring(p)
	}
	return 0
}

// WaitsUntil returns 0, because the planner determines the duration of a pass that waits for KV blocks.
func (c *Core) WaitsUntil() sim.Time { return 0 }
