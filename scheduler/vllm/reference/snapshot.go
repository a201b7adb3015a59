package reference

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// entry is the plan of a pass for one request, for planners and details.
type entry struct {
	slot   slot
	id     sim.RequestID
	share  share
	prompt int // prompt length
	length int // number of prompt and generated tokens at the time of planning
}

// isNoting reports whether plans of single requests are recorded.
func (c *Core) isNoting() bool { return c.cfg.Planner || c.pass.out.Detail != nil }

// notePlan records the plan of the pass for s.
func (c *Core) notePlan(s slot) {
	if c.isNoting() {
		r := &c.requests[s]
		c.notes = append(c.notes, entry{s, r.id, r.plan, r.input, r.length})
	}
}

// Snapshot returns the data of the latest pass for planners. Config.Planner must be set.
func (c *Core) Snapshot(*scheduler.Pass) scheduler.Snapshot {
	var s scheduler.Snapshot
	for i := range c.notes {
		if e := &c.notes[i]; e.share.prompt > 0 {
			s.Prefill.Add(e.share.total, float64(e.prompt))
			s.PrefillCached += e.share.prefix
		} else {
			s.Decode.Add(e.length, float64(e.length))
		}
	}
	for w := c.waiting.front; w != none; w = c.requests[w].next {
		if r := &c.requests[w]; r.state == preempted {
			s.QueuedDecode.Add(r.length, float64(r.length))
		} else {
			s.QueuedPrefill.Add(r.input, float64(r.input))
		}
	}
	return s
}

// Progress yields the requests that have got a token and not their last one.
func (c *Core) Progress(yield func(id sim.RequestID, tokens int, last sim.Time)) {
	for s := c.running.front; s != none; s = c.requests[s].next {
		r := &c.requests[s]
		if r.state == steady {
			yield(r.id, r.generated()+int(c.step-r.base), c.lastEnd)
		} else if n := r.generated(); n > 0 {
			yield(r.id, n, r.emittedAt)
		}
	}
	for s := c.waiting.front; s != none; s = c.requests[s].next {
		if r := &c.requests[s]; r.generated() > 0 {
			yield(r.id, r.generated(), r.emittedAt)
		}
	}
}

// fillDetail fills p.Detail if it is not nil.
func (c *Core) fillDetail(p *scheduler.Pass, prefillEnd sim.Time) {
	d := p.Detail
	if d == nil {
		return
	}
	d.PrefillEnd = prefillEnd
	d.Running, d.Waiting = c.running.len, c.live-c.running.len
	d.Blocks, d.Held, d.Cached = c.cfg.Blocks, c.supply.active(), c.supply.inactive
	if p.Count > 1 {
		return
	}
	for i := range c.notes {
		e := &c.notes[i]
		again := max(0, e.share.total-e.share.prompt-1) // the latest token was never computed before
		if e.share.prompt > 0 || again > 0 {
			d.Work = append(d.Work, scheduler.Work{
				Request: e.id, Prefix: e.share.prefix, Prompt: e.share.prompt, Recomputed: again,
			})
		}
	}
}
