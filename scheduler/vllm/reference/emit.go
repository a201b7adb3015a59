package reference

import (
	"cmp"
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// emitTokens runs the decode part of a pass (docs/rules/vllm.md "The reference's rules"). Every request with all
// tokens computed gets one token, in order of admission. emitTokens reports whether a request ended.
func (c *Core) emitTokens(start sim.Time, p *scheduler.Pass) (ended bool, err error) {
	p.End = start
	length := c.steadyLen + int64(c.steady)*c.step
	n := c.steady
	c.ready = c.ready[:0]
	for i, s := c.irregular, c.running.back; i > 0; i, s = i-1, c.requests[s].prev {
		r := &c.requests[s] // irregular requests are at the end of the queue
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

// wakeDue makes steady requests irregular that open a block or end in this pass, and appends them to ready.
func (c *Core) wakeDue() {
	for len(c.wakes) > 0 && c.wakes[0].step() <= c.step {
		w := c.wakes.Pop()
		s, at := w.slot(), w.step()
		r := &c.requests[s]
		if r.state == steady && r.wake == at {
			c.endSteady(s, false)
			r.computed = r.length // this pass computes the latest token of every steady request
			c.ready = append(c.ready, s)
		}
	}
}

// nextWake returns the step in which the first steady request opens a block or ends.
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

// endSteady makes a steady request irregular and updates its numbers. emitted tells whether the request already got
// its token of this pass.
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

// endAllSteady makes every steady request irregular, with no plan for the pass.
func (c *Core) endAllSteady() {
	for s := c.running.front; s != none; s = c.requests[s].next {
		if c.requests[s].state == steady {
			c.endSteady(s, false)
			c.requests[s].planned = -1
		}
	}
}

// giveToken gives s one token. If the token opens a block and no block is free, giveToken preempts requests, possibly
// s. giveToken reports whether s ended.
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

// noteToken records the new token of r in the pass.
func (c *Core) noteToken(r *request, p *scheduler.Pass) {
	m := p.AddToken(r.id, r.generated(), r.output, r.emittedAt, r.emitted != c.passes-1)
	r.emitted, r.emittedAt = c.passes, p.End
	if m != nil && m.Last && c.cfg.Role == scheduler.Prefill {
		m.Handoff = c.cfg.Transfer.Delay(r.input)
	}
}

// listSeconds appends the requests to p.Second that are steady now and got their first token in the previous pass.
func (c *Core) listSeconds(p *scheduler.Pass) {
	for _, s := range c.fresh {
		if r := &c.requests[s]; r.state == steady && r.base <= c.step {
			p.Second = append(p.Second, r.id)
		}
	}
	c.fresh = c.fresh[:0]
}

// finishRequest releases the blocks of s and removes the request, running or waiting.
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
