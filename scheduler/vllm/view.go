package vllm

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// view fills p with what the pass f computed, and p.Detail, if there is one. The
// requests that ended with it are still where they were.
func (c *Core) view(f *flight, p *scheduler.Pass) {
	d := p.Detail
	for i := range f.shares {
		x := &f.shares[i]
		input := int32(c.requests[x.slot].input)
		if x.dropped || x.before >= input && (d == nil || x.tokens <= 1) {
			continue
		}
		prompt := min(x.before+x.tokens, input) - min(x.before, input)
		p.PrefillTokens += int(prompt)
		if d != nil {
			d.Work = append(d.Work, scheduler.Work{
				Request: c.requests[x.slot].id, Prefix: int(min(x.before, input)), Prompt: int(prompt),
				Recomputed: int(max(0, x.tokens-prompt-x.decoded(input))),
			})
		}
	}
	if d == nil {
		return
	}
	d.Running, d.Waiting = len(c.running), c.live-len(c.running)
	d.Blocks, d.Held, d.Cached = c.cfg.Blocks, c.device.active(), c.device.cached
}

// decoded is 1 when the last of x's tokens is an answer token that was never
// computed before.
func (x *share) decoded(input int32) int32 {
	if x.samples && x.target > input {
		return 1
	}
	return 0
}

// Snapshot is what a planner sees of the latest pass.
func (c *Core) Snapshot(*scheduler.Pass) scheduler.Snapshot {
	var s scheduler.Snapshot
	var prompts, contexts, queued, lost scheduler.Welford
	for i := range c.after.shares {
		x := &c.after.shares[i]
		input := int32(c.requests[x.slot].input)
		switch {
		case x.dropped:
		case x.before < input:
			s.Prefill.Requests++
			s.Prefill.Sum += int(x.tokens)
			s.PrefillCached += int(x.before)
			prompts.Add(float64(input))
		default:
			s.Decode.Requests++
			s.Decode.Sum += int(x.target)
			contexts.Add(float64(x.target))
		}
	}
	for _, w := range c.waiting.slots[c.waiting.first:] {
		r := &c.requests[w]
		if r.state == preempted {
			s.QueuedDecode.Requests++
			s.QueuedDecode.Sum += r.target
			lost.Add(float64(r.target))
			continue
		}
		s.QueuedPrefill.Requests++
		s.QueuedPrefill.Sum += r.input
		queued.Add(float64(r.input))
	}
	s.Prefill.Variance, s.Decode.Variance = prompts.Variance(), contexts.Variance()
	s.QueuedPrefill.Variance, s.QueuedDecode.Variance = queued.Variance(), lost.Variance()
	return s
}

// Progress yields the requests that have gained a token and not their last.
func (c *Core) Progress(yield func(id sim.RequestID, tokens int, last sim.Time)) {
	for _, all := range [][]slot{c.running, c.waiting.slots[c.waiting.first:]} {
		for _, s := range all {
			r := &c.requests[s]
			if n := c.calm.delivered - r.since + 1; r.state == steady && n > 0 {
				yield(r.id, r.given+int(n), c.calm.lastEnd)
			} else if r.given > 0 {
				yield(r.id, r.given, r.lastAt)
			}
		}
	}
}
