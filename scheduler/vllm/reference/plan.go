package reference

import (
	"fmt"
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/sim"
)

// planned is the state of the plan of a pass.
type planned struct {
	budget  int  // remaining tokens
	batch   int  // number of requests with prompt tokens to compute
	isl     int  // sum of cached and computed prompt tokens over the batch
	prefix  int  // sum of prompt tokens computed before, over the batch
	total   int  // number of tokens computed
	lost    int  // number of preempted requests
	fronted int  // number of requests that the current scheduleTokens call preempted from the front of running
	further bool // a prompt has more tokens computed than ever before

	emitting bool // the decode part of the pass is running
	out      *scheduler.Pass
}

// outcome is the result of scheduling a request.
type outcome uint8

const (
	scheduled outcome = iota
	blocked
	ousted // the request was preempted
)

// barrenLimit is the number of consecutive passes without a token or progress of a prompt that counts as a stall.
// Requests then keep preempting each other (docs/rules/vllm.md "Requests that can never run").
const barrenLimit = 100_000

// runPass runs one pass by the literal rules of docs/rules/vllm.md "The reference's rules".
func (c *Core) runPass(now sim.Time, p *scheduler.Pass) error {
	c.pass = planned{budget: c.cfg.Budget(), out: p}
	c.notes = c.notes[:0]
	c.capture.beginPass(p)
	fetched := c.pool.Begin(now, p)
	for i := len(fetched) - 1; i >= 0; i-- {
		c.pushFront(&c.waiting, fetched[i])
	}
	c.planRunning()
	quiet := c.irregular == 0
	stopped := c.planWaiting()
	start, err := c.prefillEnd(now)
	if err != nil {
		return err
	}
	ended, err := c.emitTokens(start, p)
	if err != nil {
		return err
	}
	c.pool.Linger(p)
	c.pool.noteProgress(c.pass.lost > 0, ended)
	p.Gap = p.End - p.Start
	p.Preempted = c.pass.lost
	c.step++
	c.passes++
	c.lastEnd = p.End
	c.markSteady()
	c.blocked = stopped && quiet && len(p.Admitted) == 0 && !ended && c.pass.lost == 0
	c.checkAccounts()
	c.fillDetail(p, start)
	return c.checkProgress(p)
}

// planRunning plans tokens for running requests, in order of admission.
func (c *Core) planRunning() {
	s := c.firstIrregular()
	if s == none && c.irregular > 0 || c.steady > c.pass.budget || c.cfg.Planner {
		c.endAllSteady()
		s = c.running.front
	} else {
		c.pass.budget -= c.steady
		c.pass.total += c.steady
	}
	for s != none && c.pass.budget > 0 {
		next := c.requests[s].next
		c.pass.fronted = 0
		o := c.scheduleTokens(s, false)
		if o == blocked || o == ousted && c.cfg.Preemption == vllm.LIFO {
			return // an ousted request was the last running request
		}
		if o == scheduled {
			next = c.requests[s].next
		}
		// Victims at the front shift the list, so that the next index skips as many requests.
		for i := c.pass.fronted; i > 0 && next != none; i-- {
			next = c.requests[next].next
		}
		s = next
	}
}

// firstIrregular returns the first irregular request if all irregular requests are after all steady requests. If an
// irregular request is before a steady request, firstIrregular returns none.
func (c *Core) firstIrregular() slot {
	s, first := c.running.back, none
	for range c.irregular {
		if c.requests[s].state != irregular {
			return none
		}
		first, s = s, c.requests[s].prev
	}
	return first
}

// planWaiting admits requests from the front of the queue. planWaiting reports whether the first request was tried
// and could not be admitted.
func (c *Core) planWaiting() bool {
	for c.pass.lost == 0 && !c.cfg.IsFull(c.running.len) && c.waiting.len > 0 {
		s := c.waiting.front
		switch c.pool.Fetch(s) {
		case blocks.Parked:
			continue
		case blocks.Waiting:
			return false // the wait can end in any pass
		}
		if c.scheduleTokens(s, true) != scheduled {
			return true
		}
		if c.requests[s].plan.total == 0 && c.pass.budget == 0 {
			return false
		}
	}
	return false
}

// scheduleTokens plans as many tokens of s as budget and blocks allow, and preempts other requests for blocks
// (docs/rules/vllm.md "The reference's rules").
func (c *Core) scheduleTokens(s slot, admit bool) outcome {
	r := &c.requests[s]
	cached := 0
	if r.computed == 0 {
		if c.pass.budget == 0 && (r.length > r.input || r.input&(c.cfg.BlockTokens-1) != 0) {
			return blocked // only full blocks of the prompt are cached, so at least one token must be computed
		}
		cached = c.cachedPrefix(s)
	}
	before := r.computed + cached
	promptBefore := min(before, r.input)
	remaining := max(r.length-before, 0)
	promptLeft := r.input - promptBefore
	if promptLeft > 0 && !c.cfg.ChunkedPrefill && promptLeft > c.pass.budget {
		return blocked
	}
	want := min(remaining, c.pass.budget)
	if want == 0 && remaining > 0 {
		return blocked
	}
	after, ok := c.allocBlocks(s, before+want)
	if !ok {
		return ousted
	}
	used := max(after-before, 0)
	if used == 0 && after < r.length {
		return blocked
	}
	r.plan = share{total: used, prompt: min(after, r.input) - promptBefore, prefix: promptBefore}
	r.planned = c.passes
	c.countShare(r.plan, 1)
	c.notePlan(s)
	c.pass.budget = max(c.pass.budget-used, 0)
	if after > r.furthest {
		r.furthest, c.pass.further = after, true
	}
	if admit {
		c.admitHead(s, promptBefore)
	}
	return scheduled
}

// allocBlocks allocates blocks for the first target tokens of s. allocBlocks returns how many tokens are computed
// then; ok is false if s was preempted.
func (c *Core) allocBlocks(s slot, target int) (after int, ok bool) {
	r := &c.requests[s]
	after = target
	for {
		if target <= r.allocated {
			r.computed = after
			return after, true
		}
		from, to := c.heldBlocks(r), min(c.blocksOf(target), r.countBlocks())
		if to <= from {
			r.allocated, r.computed = target, after
			return after, true
		}
		got := c.pool.useBlocks(s, from, to)
		if got == to-from {
			r.allocated, r.computed = target, after
			return after, true
		}
		cover := (from + got) << c.shift
		r.allocated, r.computed = min(cover, target), min(after, cover)
		v := c.preemptVictim(s)
		if v == none {
			return r.computed, true
		}
		if v == s {
			return 0, false
		}
	}
}

// countShare adds a share to the pass (sign 1) or subtracts it (sign -1).
func (c *Core) countShare(x share, sign int) {
	c.pass.total += sign * x.total
	if x.prompt > 0 && c.cfg.Role != scheduler.Decode {
		c.pass.batch += sign
		c.pass.isl += sign * (x.prefix + x.prompt)
		c.pass.prefix += sign * x.prefix
	}
	c.pass.out.PrefillTokens += sign * x.prompt
}

// admitHead moves s from the front of the queue to the end of running. reused is the number of its prompt tokens that
// were cached.
func (c *Core) admitHead(s slot, reused int) {
	r := &c.requests[s]
	c.removeFrom(&c.waiting, s)
	c.pushBack(&c.running, s)
	c.admitted++
	again := r.state == preempted
	r.order, r.state = c.admitted, irregular
	c.irregular++
	c.pass.out.Admitted = append(c.pass.out.Admitted, scheduler.Admission{
		Request: r.id, Again: again, Reused: reused, FromHost: c.pool.FromHost(s, reused),
	})
}

// prefillEnd returns the end of the prefill part of the pass.
func (c *Core) prefillEnd(now sim.Time) (sim.Time, error) {
	if c.pass.batch == 0 {
		return now, nil
	}
	n := c.pass.batch
	ms, err := c.cfg.Clock.Prefill(n, c.pass.isl/n, c.pass.prefix/n)
	return now + sim.Time(ms), err
}

// markSteady makes the requests steady that got a token in this pass.
func (c *Core) markSteady() {
	for _, s := range c.ready {
		r := &c.requests[s]
		if r.state != irregular || r.emitted != c.passes-1 {
			continue
		}
		r.state, r.base = steady, c.step
		c.irregular--
		c.steady++
		c.steadyLen += int64(r.length) - r.base
		opens := r.length + 1
		if rest := r.length & (c.cfg.BlockTokens - 1); rest != 0 {
			opens += c.cfg.BlockTokens - rest
		}
		r.wake = r.base + int64(min(opens, r.input+r.output)-r.length) - 1
		c.wakes.Push(newWake(r.wake, s))
		if r.generated() == 1 {
			c.fresh = append(c.fresh, s)
		}
	}
}

// checkProgress counts passes without progress, and returns an error if the core has stalled.
func (c *Core) checkProgress(p *scheduler.Pass) error {
	if p.Tokens > 0 || c.pass.further {
		c.barren = 0
		return nil
	}
	idle := c.pass.total == 0 && len(p.Admitted) == 0 && c.pass.lost == 0
	if c.pool.passesTime() {
		return nil
	}
	c.barren++
	if c.barren < barrenLimit && c.pool.canRetry(idle) {
		return nil
	}
	if idle {
		return c.stallError()
	}
	if c.barren >= barrenLimit {
		_, r := c.nextInLine()
		return &scheduler.StallError{Request: r.id, Reason: fmt.Sprintf(
			"%d passes without a token: running requests keep preempting each other for %d KV blocks with %d tokens per pass (max_num_batched_tokens)",
			c.barren, c.cfg.Blocks, c.cfg.MaxBatchedTokens)}
	}
	return nil
}

// nextInLine returns the request that should continue next.
func (c *Core) nextInLine() (s slot, r *request) {
	for s, r := range c.inLine() {
		return s, r
	}
	i := slices.IndexFunc(c.requests, func(r request) bool { return r.state != gone })
	return slot(i), &c.requests[i] // a request that waits for a fetch
}

// stallError returns an error that explains why nothing can run.
func (c *Core) stallError() error {
	s, r := c.nextInLine()
	reason := fmt.Sprintf("nothing can run: %d of %d tokens computed, %d KV blocks free or evictable of %d",
		r.computed, r.length, c.supply.free+c.supply.inactive, c.cfg.Blocks)
	left := r.input - min(c.cachedPrefix(s), r.input)
	if !c.cfg.ChunkedPrefill && c.cfg.MaxBatchedTokens != vllm.Unlimited && left > c.cfg.MaxBatchedTokens {
		reason = fmt.Sprintf("%d prompt tokens to compute with chunked prefill off, must be at most max_num_batched_tokens %d",
			left, c.cfg.MaxBatchedTokens)
	}
	return &scheduler.StallError{Request: r.id, Reason: reason}
}

// blocksOf returns the number of blocks for that many tokens.
func (c *Core) blocksOf(tokens int) int { return (tokens + c.cfg.BlockTokens - 1) >> c.shift }

// heldBlocks returns the number of blocks that r holds. The held blocks are always the first blocks of the list of r.
func (c *Core) heldBlocks(r *request) int { return min(c.blocksOf(r.allocated), r.countBlocks()) }

// cachedPrefix returns the number of consecutive prompt tokens of s with cached KV, from the first token on. Blocks
// that s generated count up to the length of the prompt.
func (c *Core) cachedPrefix(s slot) int {
	if !c.cfg.PrefixCaching {
		return 0
	}
	return min(c.pool.Cached(s)<<c.shift, c.requests[s].input)
}
