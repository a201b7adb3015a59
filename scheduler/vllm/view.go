package vllm

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// describePass records the work of pass f in p and, if there is one, in p.Detail. The requests that ended with f are
// still in their slots.
func (c *Core) describePass(f *flight, p *scheduler.Pass) {
	d := p.Detail
	for i := range f.shares {
		x := &f.shares[i]
		input := int32(c.requests[x.slot].input)
		if x.dropped || x.before >= input && (d == nil || x.tokens-x.drafts <= 1) {
			continue
		}
		prompt := min(x.before+x.tokens, input) - min(x.before, input)
		p.PrefillTokens += int(prompt)
		if d != nil {
			d.Work = append(d.Work, scheduler.Work{
				Request: c.requests[x.slot].id, Prefix: int(min(x.before, input)), Prompt: int(prompt),
				Recomputed: int(max(0, x.tokens-prompt-x.countDecoded(input))),
			})
		}
	}
	if d == nil {
		return
	}
	d.Running, d.Waiting = len(c.running), c.live-len(c.running)
	d.Blocks, d.Held, d.Cached = c.cfg.Blocks, c.supply.held(), c.supply.cached
}

// countDecoded returns 1 plus the number of drafts, if the last token of x is an answer token that was never computed
// before, and otherwise 0.
func (x *share) countDecoded(input int32) int32 {
	if x.samples && x.target > input {
		return 1 + x.drafts
	}
	return 0
}

// Snapshot returns a planner's view of the latest pass.
func (c *Core) Snapshot(*scheduler.Pass) scheduler.Snapshot {
	var s scheduler.Snapshot
	for i := range c.after.shares {
		x := &c.after.shares[i]
		input := c.requests[x.slot].input
		switch {
		case x.dropped:
		case int(x.before) < input:
			s.Prefill.Add(int(x.tokens), float64(input))
			s.PrefillCached += int(x.before)
		default:
			s.Decode.Add(int(x.target), float64(x.target))
		}
	}
	for _, w := range c.waiting.All() {
		if r := &c.requests[w]; r.state == preempted {
			s.QueuedDecode.Add(r.target, float64(r.target))
		} else {
			s.QueuedPrefill.Add(r.input, float64(r.input))
		}
	}
	return s
}

// Progress yields the requests that have gained a token but not their last.
func (c *Core) Progress(yield func(id sim.RequestID, tokens int, last sim.Time)) {
	lines := [][]slot{c.running, c.waiting.All()}
	if c.conn != nil {
		lines = append(lines, c.conn.aside)
	}
	for _, all := range lines {
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
