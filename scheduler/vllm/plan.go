package vllm

import (
	"fmt"
	"slices"

	"github.com/replay-llm/replay/internal/invariant"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm/gate"
)

// share is the work for one request in a pass.
type share struct {
	slot    slot
	before  int32 // tokens computed before
	tokens  int32 // tokens computed by the pass
	target  int32 // target of the request when it was planned
	samples bool  // the request gains a token
	dropped bool  // the request was preempted in the same plan

	// With speculative decoding: drafts among tokens, how many of them are accepted, and whether a drafter proposed
	// them.
	drafts, accepted int32
	verifies         bool
}

// flight is a planned pass that has not ended.
type flight struct {
	plan   int64 // number of the plan
	shares []share
	live   int    // number of shares that are not dropped
	steady int    // number of steady requests, which gain a token without a share
	extra  []slot // requests that gain a token without a share, but are no longer steady
	// drafted reports whether a request could use the drafts made after the pass; it may have been preempted since.
	drafted bool
	step    timing.Step
	transit
}

func (f *flight) isEmpty() bool { return f.live+f.steady == 0 }

func (f *flight) clear() {
	f.shares, f.extra, f.live, f.steady, f.drafted = f.shares[:0], f.extra[:0], 0, 0, false
}

// pass is the state of planning a pass.
type pass struct {
	flight   *flight
	out      *scheduler.Pass
	budget   int  // remaining tokens
	limit    int  // maximum tokens per request; 0: no limit
	shut     bool // no prompts are computed
	prefills bool // prompts are computed
	ran      int  // number of shares of requests that ran before
	lost     int  // number of preempted requests
	stripped int  // number of preempted requests that had left
}

// planPass plans the next pass. planPass records admissions and preemptions in out, the pass that starts now.
func (c *Core) planPass(f *flight, out *scheduler.Pass) {
	f.clear()
	c.plans++
	f.plan = c.plans
	p := pass{flight: f, out: out, budget: c.cfg.Budget(), limit: c.rules.LongPrefillTokens}
	if c.rules.WholeAlone && len(c.running)+c.apart.gone+c.waiting.Len()+c.pool.Fetching() <= 1 {
		p.limit = 0
	}
	c.wakeDue()
	p.shut = c.gate.IsShut(c.cfg.PrefillInterval) && slices.ContainsFunc(c.running, func(s slot) bool { return !c.requests[s].midway })
	c.reserveSteady(&p)
	c.planRunning(&p)
	if p.lost == 0 && c.conn != nil {
		c.conn.planWaiting(&p)
	} else if p.lost == 0 {
		c.planWaiting(&p)
	}
	c.stuck = p.lost == 0 && c.cfg.PrefillInterval <= 1
	f.steady = c.calm.count
	c.gate.Add(gate.Pass{Computes: !p.flight.isEmpty(), Prefills: p.prefills, Open: !p.shut && p.lost == 0, Waiting: c.waiting.Len()})
	f.step = c.measurePass(f)
	c.markSteady(f)
	out.Preempted += p.lost - p.stripped
}

// planRunning plans the tokens of lively requests, in order of admission. Steady requests have their tokens already.
func (c *Core) planRunning(p *pass) {
	for i := 0; i < len(c.calm.lively) && p.budget > 0; i++ {
		s := c.calm.lively[i]
		r := &c.requests[s]
		if c.drafts.endsInFlight(r) || p.shut && r.midway { // all tokens of r are known or in flight, or r must pause
			continue
		}
		want := min(r.target-r.computed+r.spec.drafts, p.budget-c.drafts.draftSlots)
		if p.limit > 0 {
			want = min(want, p.limit)
		}
		if c.drafts.boundsDrafts() {
			want = min(want, c.cfg.MaxLength-1-r.computed)
		}
		if want <= 0 {
			continue
		}
		if c.groups != nil {
			c.dropPassed(p, r)
		}
		if want == 1 && c.rules.WholeAllocation && c.cfg.Speculation == nil && c.hasPlace(r) {
			c.scheduleTokens(p, s, 1)
			continue
		}
		left := 0 // number of requests after r that are skipped
		for !c.allocBlocks(r, r.computed+want) {
			if c.conn != nil && c.conn.keepsVictim() {
				c.pauseAfter(p, r)
				return
			}
			live := p.flight.live
			v := c.preemptVictim(p)
			if v == s && !c.rules.PastSelf {
				return
			}
			if i >= len(c.calm.lively) || c.calm.lively[i] != s {
				i-- // the victim was before s, or was s
				if v != s && p.flight.live == live && c.cfg.Scheduling == ByPriority && !c.rules.KeepNext {
					left++
				}
			}
			if r.state != running {
				break
			}
		}
		if r.state == running {
			c.scheduleTokens(p, s, want)
		}
		i += left
	}
}

// pauseAfter removes steady requests that were admitted after r from the pass.
func (c *Core) pauseAfter(p *pass, r *request) {
	for _, s := range c.running {
		if x := &c.requests[s]; x.state == steady && x.order > r.order {
			c.endSteady(s)
			c.calm.lively = c.insertAdmitted(c.calm.lively, s)
			p.budget++
		}
	}
}

// hasPlace reports whether the next token of r fits in its last block without completing a block that must be named
// now. A completed block of known tokens must be named now. A block completed by an answer token is named when the
// next block is opened.
func (c *Core) hasPlace(r *request) bool {
	if r.computed&c.mask == 0 {
		return false
	}
	return (r.computed+1)&c.mask != 0 || !r.midway && r.computed >= r.input && !(c.rules.TwoInFlight && c.knownTokens(r) > r.computed)
}

// dropPassed releases the blocks of r that are before the windows of all its layers with windows.
func (c *Core) dropPassed(p *pass, r *request) {
	n := c.groups.passedBlocks(r, r.computed-c.unfinishedTokens(p, r))
	if n > r.passed {
		c.nameBlocks(r, r.computed-(r.target-c.knownTokens(r)))
		c.groups.dropBlocks(r, n)
	}
}

// unfinishedTokens returns how many computed tokens of r, in the pass that runs during planning, do not count for
// windows.
func (c *Core) unfinishedTokens(p *pass, r *request) int {
	switch {
	case !c.rules.WindowLag || p.flight != c.after:
		return 0
	case r.plan == c.plans-1:
		return int(c.next.shares[r.planned].tokens)
	}
	return r.target - c.knownTokens(r) // tokens of a request that was steady
}

// scheduleTokens adds tokens of s to the pass.
func (c *Core) scheduleTokens(p *pass, s slot, tokens int) {
	r := &c.requests[s]
	f := p.flight
	r.before, r.plan, r.planned = r.plan, c.plans, int32(len(f.shares))
	x := share{slot: s, before: int32(r.computed), tokens: int32(tokens), target: int32(r.target)}
	p.prefills = p.prefills || r.midway
	r.computed += tokens
	p.budget -= tokens + c.drafts.draftSlots
	if r.computed >= r.target {
		x.samples = true
		if r.offload != nil {
			r.offload.Prefilling = false
		}
		if c.cfg.Speculation != nil {
			c.drafts.sampleDrafts(&x, r, r.computed-r.target)
		} else {
			r.target++
		}
	} else if r.computed > r.furthest {
		r.furthest, c.progress.further = r.computed, true
	}
	f.drafted = f.drafted || c.drafts.wantsDrafts(r, &x)
	r.midway = !x.samples
	f.shares = append(f.shares, x)
	f.live++
}

// allocBlocks allocates the blocks for the given number of tokens of r and reports whether there were enough.
func (c *Core) allocBlocks(r *request, tokens int) bool {
	n := c.blocksFor(r, c.drafts.addLookahead(r, tokens))
	if n <= r.blocks {
		if tokens&c.mask == 0 || c.cfg.Speculation != nil {
			c.nameBlocks(r, min(tokens, c.knownTokens(r)))
		}
		return true
	}
	enough := c.pool.takeBlocks(r, n)
	if enough || !c.rules.WholeAllocation {
		c.nameBlocks(r, min(tokens, c.knownTokens(r)))
	}
	return enough
}

// blocksFor returns the number of blocks that r needs for the given number of computed tokens. Without
// WholeAllocation, the sampled token counts too, because its block is allocated with the pass that samples it.
func (c *Core) blocksFor(r *request, tokens int) int {
	if !c.rules.WholeAllocation && tokens == r.target {
		tokens++
	}
	return (tokens + c.mask) >> c.shift
}

// knownTokens returns the number of tokens of r with a known value. A plan that waited for the end of a pass is made
// before the tokens of that pass are known.
func (c *Core) knownTokens(r *request) int {
	if c.apart.late && r.pass == c.passes-1 {
		return r.input + r.given - 1
	}
	return r.input + r.given
}

// nameBlocks names the full blocks of the first tokens of r, so that they can be found.
func (c *Core) nameBlocks(r *request, tokens int) {
	if !c.cfg.PrefixCaching {
		return
	}
	if c.drafts.ahead {
		tokens = min(tokens, c.knownTokens(r)-1)
	}
	if full := min(tokens>>c.shift, r.blocks); full > r.named {
		c.pool.nameBlocks(r, full)
	}
}

// victim returns the index in running of the request to preempt.
func (c *Core) victim() int {
	last := len(c.running) - 1
	switch {
	case c.cfg.Scheduling == ByPriority:
		last = 0
		for i, s := range c.running {
			if c.requests[s].rank.lessUrgent(&c.requests[c.running[last]].rank) {
				last = i
			}
		}
	case !c.rules.LastVictim && c.cfg.Preemption != 0:
		return 0
	}
	return last
}

// preemptVictim preempts a running request and returns it.
func (c *Core) preemptVictim(p *pass) slot {
	i := c.victim()
	s := c.running[i]
	r := &c.requests[s]
	if v, ok := c.stripLeaving(r); ok {
		p.lost++
		p.stripped++
		return v
	}
	if c.conn != nil {
		c.conn.preempt(s)
	}
	if r.state == steady {
		c.endSteady(s)
	} else {
		c.calm.removeLively(s)
	}
	if invariant.Enabled && r.state != running {
		panic(fmt.Sprintf("preempt: request %d is in state %d, must be %d", r.id, r.state, running))
	}
	if r.plan == c.plans {
		c.dropShare(p, r)
	}
	c.running = append(c.running[:i], c.running[i+1:]...)
	if c.drafts.namesAtEnd() {
		inFlight := r.target - c.knownTokens(r)
		c.nameBlocks(r, r.computed-inFlight)
	}
	c.pool.stripBlocks(r)
	r.computed, r.state = 0, preempted
	r.spec.drafts, r.spec.rejected = 0, 0
	c.joinLine(s, true)
	p.lost++
	if d := p.out.Detail; d != nil {
		d.Lost = append(d.Lost, r.id)
	}
	return s
}

// dropShare removes r from the pass that is being planned.
func (c *Core) dropShare(p *pass, r *request) {
	x := &p.flight.shares[r.planned]
	x.dropped = true
	p.flight.live--
	p.budget += int(x.tokens) + c.drafts.draftSlots
	r.computed -= int(x.tokens)
	if x.samples {
		r.target = int(x.target)
		if c.cfg.Speculation != nil {
			r.spec.sampled -= int(x.accepted) + 1
		}
	}
	r.plan = -1
}
