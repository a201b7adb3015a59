package custom

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
)

// setEnd sets the end of the planned pass, and the part of the pass spent on prompts.
func (c *Core) setEnd(p *scheduler.Pass) error {
	c.step = c.measurePass()
	step := &c.step
	ms, err := c.cfg.Clock.Step(step)
	if err != nil {
		return err
	}
	p.End = p.Start + sim.Time(ms)
	if n, ok := timing.InNanos(ms); ok {
		p.Nanos = append(p.Nanos, n)
	}
	if p.Detail == nil {
		return nil
	}
	p.Detail.PrefillEnd = p.Start
	if step.Mixed() { // the prompt part is the duration of the pass, minus the duration that only its decodes would take
		var without float64
		without, err = c.cfg.Clock.StepDecodes(step)
		p.Detail.PrefillEnd = max(p.Start, p.End-sim.Time(without))
	}
	return err
}

// measurePass sums up the work of the planned pass by the rules of vLLM. The first token of an answer belongs to the
// pass that completes the prompt, and all tokens are computed together.
func (c *Core) measurePass() timing.Step {
	block := c.cfg.BlockTokens
	s := timing.Step{Active: (c.cfg.Blocks - c.pool.free) * block, Capacity: c.cfg.Blocks * block}
	for i := range c.plan.shares {
		x := &c.plan.shares[i]
		if x.isDecode() || x.tokens == 1 && c.cfg.Clock.TimesWhole() { // decode kernels also compute the last token of a prompt
			s.AddDecode(1, x.before+1)
		} else {
			s.AddChunk(x.tokens, x.before, x.r.input)
		}
	}
	return s
}

// isDecode reports whether the share is one token of an answer.
func (x *share) isDecode() bool { return x.tokens == 1 && x.before >= x.r.input }

// deliverTokens ends the pass: requests gain their tokens, and complete requests leave.
func (c *Core) deliverTokens(p *scheduler.Pass) {
	ended := false
	for i := range c.plan.shares {
		x := &c.plan.shares[i]
		r := x.r
		if x.before < r.input || p.Detail != nil && !x.isDecode() {
			c.addWork(p, x)
		}
		if !x.samples {
			continue
		}
		r.given++
		m := p.AddToken(r.id, r.given, r.output, r.lastAt, r.pass != c.passes-1)
		r.pass, r.lastAt = c.passes, p.End
		r.show()
		if m != nil && m.Last {
			c.finish(r)
			ended = true
		}
	}
	if ended {
		c.running = slices.DeleteFunc(c.running, func(r *request) bool { return !r.runs })
	}
}

// addWork records the prompt tokens of a share, and its answer tokens that are computed again.
func (c *Core) addWork(p *scheduler.Pass, x *share) {
	before, input := min(x.before, x.r.input), x.r.input
	prompt := min(x.before+x.tokens, input) - before
	p.PrefillTokens += prompt
	if p.Detail == nil {
		return
	}
	again := x.tokens - prompt
	if x.samples && x.r.given > 0 { // the last answer token was never computed before
		again--
	}
	p.Detail.Work = append(p.Detail.Work, scheduler.Work{Request: x.r.id, Prefix: before, Prompt: prompt, Recomputed: max(0, again)})
}

// describePass records the occupancy of the worker.
func (c *Core) describePass(p *scheduler.Pass) {
	if d := p.Detail; d != nil {
		d.Running, d.Waiting = len(c.running), c.waiting.Len()
		d.Blocks, d.Held, d.Cached = c.cfg.Blocks, c.cfg.Blocks-c.pool.free, c.pool.cached
	}
}
