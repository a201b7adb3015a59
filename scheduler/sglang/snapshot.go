package sglang

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// keepView keeps what a planner sees of the pass before its decode step.
func (c *Core) keepView() {
	if !c.Planner {
		return
	}
	c.view = scheduler.Snapshot{}
	var prompts, contexts scheduler.Welford
	for i := range c.batch {
		e := &c.batch[i]
		g := &c.view.Prefill
		g.Requests++
		g.Sum += e.tokens
		if !c.rules.Discount {
			g.Sum += e.before - e.held // what was found in the cache counts there
		}
		c.view.PrefillCached += e.before
		prompts.Add(float64(e.request.InputTokens))
	}
	c.view.Prefill.Variance = prompts.Variance()
	for _, r := range c.running {
		g := &c.view.Decode
		g.Requests++
		g.Sum += c.lengthOf(r)
		contexts.Add(float64(c.lengthOf(r)))
	}
	c.view.Decode.Variance = contexts.Variance()
}

// Snapshot is what a planner sees of the latest pass (sglang-scheduler.md 4.6).
// The core must have been made with Config.Planner.
func (c *Core) Snapshot(*scheduler.Pass) scheduler.Snapshot {
	s := c.view
	var prompts, contexts scheduler.Welford
	if c.partial != nil {
		countQueued(c.partial, &s, &prompts, &contexts)
	}
	for _, r := range c.waiting.all() {
		countQueued(r, &s, &prompts, &contexts)
	}
	s.QueuedPrefill.Variance, s.QueuedDecode.Variance = prompts.Variance(), contexts.Variance()
	return s
}

func countQueued(r *request, s *scheduler.Snapshot, prompts, contexts *scheduler.Welford) {
	g, w, n := &s.QueuedPrefill, prompts, r.InputTokens
	if r.out > 0 {
		g, w, n = &s.QueuedDecode, contexts, r.length()
	}
	g.Requests++
	g.Sum += n
	w.Add(float64(n))
}

// Progress yields the requests that have gained a token and not their last.
func (c *Core) Progress(yield func(id sim.RequestID, tokens int, last sim.Time)) {
	for _, r := range c.running {
		if n := r.out + c.tokensSince(r); n > 0 {
			yield(r.ID, n, c.lastEnd)
		}
	}
	for _, r := range c.waiting.all() {
		if r.out > 0 {
			yield(r.ID, r.out, r.lastToken)
		}
	}
	if r := c.partial; r != nil && r.out > 0 {
		yield(r.ID, r.out, r.lastToken)
	}
}

// describeBatch fills in who computed what, for who wants it, before finished
// requests are let go.
func (c *Core) describeBatch(d *scheduler.Detail) {
	if d == nil {
		return
	}
	for i := range c.batch {
		e := &c.batch[i]
		input, end := e.request.InputTokens, e.before+e.tokens
		w := scheduler.Work{Request: e.request.ID, Prefix: min(e.before, input)}
		w.Prompt = min(end, input) - w.Prefix
		w.Recomputed = e.tokens - w.Prompt
		d.Work = append(d.Work, w)
	}
}

// describeState fills in the rest of p.Detail.
func (c *Core) describeState(p *scheduler.Pass, prefillEnd sim.Time) {
	d := p.Detail
	if d == nil {
		return
	}
	d.PrefillEnd = prefillEnd
	for _, r := range c.retired {
		d.Lost = append(d.Lost, r.ID)
	}
	d.Running, d.Waiting = len(c.running), c.Load()-len(c.running)
	d.Blocks = c.Pages
	d.Cached = c.evictableTokens() / c.PageTokens
	d.Held = max(0, c.pool-c.free-c.evictableTokens()) / c.PageTokens
}
