package reference

import (
	"cmp"
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// emitTokens is the decode part of a pass: one token for every request with all tokens computed, in order of admission
// (docs/rules/vllm.md "The reference's rules"). It reports whether a request ended.
func (c *Core) emitTokens(start sim.Time, p *scheduler.Pass) (ended bool, err error) {
	p.End = start
	length := c.steadyLen + int64(c.steady)*c.step
	n := c.steady
	c.ready = c.ready[:0]
	for i, s := c.irregular, c.running.back; i > 0; i, s = i-1, c.requests[s].prev {
		r := &c.requests[s] // irregular requests stand last
		if r.computed >= r.length && r.generated() < r.output {
			c.ready = append(c.ready, s)
			n, length = n+1, length+int64(r.length)
		}
	}
	if n == 0 {
		c.fresh = c.fresh[:0]
		return false, nil
	}
	if c.cfg.Role != scheduler.Prefill {
		ms, err := c.decodeTime(n, length)
		if err != nil {
			return false, err
		}
		p.End = start + sim.Time(ms)
	}
	c.pass.emitting = true
	c.wakeDue()
	if len(c.ready) > 1 {
		slices.SortFunc(c.ready, func(a, b slot) int { return cmp.Compare(c.requests[a].order, c.requests[b].order) })
	}
	for _, s := range c.ready {
		if c.requests[s].state == irregular && c.giveToken(s, p) {
			ended = true
		}
	}
	p.Tokens += c.steady
	p.Decoding += c.steady
	c.listSeconds(p)
	if p.Tokens == 0 {
		p.End = start
	}
	return ended, nil
}

// wakeDue makes irregular the steady requests that open a block or end in this
// pass, and readies them.
func (c *Core) wakeDue() {
	for len(c.wakes) > 0 && c.wakes[0].step() <= c.step {
		w := c.wakes.Pop()
		s, at := w.slot(), w.step()
		r := &c.requests[s]
		if r.state == steady && r.wake == at {
			c.endSteady(s, false)
			r.computed = r.length // this pass computes it, like every steady one
			c.ready = append(c.ready, s)
		}
	}
}

// nextWake returns the step in which the first steady request opens a block or
// ends.
func (c *Core) nextWake() int64 {
	for len(c.wakes) > 0 {
		s, at := c.wakes[0].slot(), c.wakes[0].step()
		if r := &c.requests[s]; r.state == steady && r.wake == at {
			return at
		}
		c.wakes.Pop()
	}
	return c.step
}

// endSteady makes a steady request irregular, with its numbers written out.
// emitted is whether it has gained this pass's token.
func (c *Core) endSteady(s slot, emitted bool) {
	r := &c.requests[s]
	c.steady--
	c.steadyLen -= int64(r.length) - r.base
	r.length += int(c.step - r.base)
	r.emitted, r.emittedAt = c.passes-1, c.lastEnd
	if emitted {
		r.length++
		c.noteToken(r, c.pass.out)
	}
	r.computed, r.allocated = r.length-1, r.length
	r.state = irregular
	r.planned = c.passes
	r.plan = share{total: 1}
	c.irregular++
}

// endAllSteady makes every steady request irregular and unplanned.
func (c *Core) endAllSteady() {
	for s := c.running.front; s != none; s = c.requests[s].next {
		if c.requests[s].state == steady {
			c.endSteady(s, false)
			c.requests[s].planned = -1
		}
	}
}

// giveToken gives s one token, preempting other requests when the token opens a block
// and none is left; s may be the one to go. It reports whether s ended.
func (c *Core) giveToken(s slot, p *scheduler.Pass) (ended bool) {
	r := &c.requests[s]
	for {
		opens := r.length&(c.cfg.BlockTokens-1) == 0
		if opens && r.part {
			c.pool.promotePartial(s)
		}
		if !opens || c.pool.openBlock(s) {
			break
		}
		r.part = false
		if v := c.preemptVictim(s); v == s || v == none {
			return false
		}
	}
	r.part = r.length&(c.cfg.BlockTokens-1) == 0 || r.part
	r.length++
	r.allocated = r.length
	c.noteToken(r, p)
	if r.generated() < r.output {
		return false
	}
	c.finishRequest(s)
	return true
}

// noteToken writes r's new token into the pass.
func (c *Core) noteToken(r *request, p *scheduler.Pass) {
	m := p.AddToken(r.id, r.generated(), r.output, r.emittedAt, r.emitted != c.passes-1)
	r.emitted, r.emittedAt = c.passes, p.End
	if m != nil && m.Last && c.cfg.Role == scheduler.Prefill {
		m.Handoff = c.cfg.Transfer.Delay(r.input)
	}
}

// listSeconds lists the second tokens of requests that were fresh and are
// steady.
func (c *Core) listSeconds(p *scheduler.Pass) {
	for _, s := range c.fresh {
		if r := &c.requests[s]; r.state == steady && r.base <= c.step {
			p.Second = append(p.Second, r.id)
		}
	}
	c.fresh = c.fresh[:0]
}

// finishRequest frees everything s holds and forgets it, wherever it stands.
func (c *Core) finishRequest(s slot) {
	r := &c.requests[s]
	c.pool.Release(s)
	c.pool.Forget(s)
	switch r.queue {
	case runningQueue:
		c.removeFrom(&c.running, s)
		c.irregular--
	case waitingQueue:
		c.removeFrom(&c.waiting, s)
	}
	r.state = gone
	c.live--
	c.unused = append(c.unused, s)
}
