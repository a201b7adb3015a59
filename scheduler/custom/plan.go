package custom

import (
	"fmt"
	"math"
	"slices"

	"github.com/replay-llm/replay/sim"
)

// Plan is a pass that an engine is planning: the requests, and the methods to plan with. Each call takes effect
// immediately on the free KV blocks and on the fields of requests.
//
// An invalid call ends the replay with an error that names the worker, the instant and the request. After an invalid
// call, all later calls have no effect until Plan returns, and Fits returns true.
type Plan struct {
	// Now is the start of the pass.
	Now sim.Time
	// Running are the running requests at the start of the pass, in order of admission. Waiting are the other
	// requests: first preempted requests, the most recently preempted first, then new requests by arrival. The slices
	// are copies that the engine may reorder; Compute and Preempt do not change them.
	Running, Waiting []*Request

	core   *Core
	shares []share
	wait   sim.Time // end of the wait as an instant; 0: the pass does not wait
	err    error    // the first invalid call
	over   bool     // Plan has returned: no calls are allowed any more
}

// share is the work for one request in a pass.
type share struct {
	r              *request
	before, tokens int
	samples        bool // the request gains a token
}

// Free returns the number of KV blocks that no request uses. Cached blocks among them are evicted when they are
// needed.
func (p *Plan) Free() int { return p.core.pool.free }

// Cached returns how many tokens of a waiting request would be found in the cache if it were admitted now. The last
// known token is always computed, and never counts as cached.
func (p *Plan) Cached(id sim.RequestID) int {
	r := p.core.byID[id]
	if r == nil || r.runs {
		return 0
	}
	return p.core.pool.countHits(r) * p.core.cfg.BlockTokens
}

// Needs returns the number of free KV blocks required to compute the given number of further tokens of a request. For
// a waiting request, the tokens start after the request's cached tokens. The count includes cached blocks without a
// holder.
func (p *Plan) Needs(id sim.RequestID, tokens int) int {
	r := p.core.byID[id]
	if r == nil || p.err != nil {
		return 0
	}
	if r.runs {
		return p.core.pool.countNeed(r, r.computed+tokens, 0)
	}
	hits := p.core.pool.countHits(r)
	return p.core.pool.countNeed(r, hits*p.core.cfg.BlockTokens+tokens, hits)
}

// Fits reports whether there are enough free KV blocks for the given number of further tokens of a request.
func (p *Plan) Fits(id sim.RequestID, tokens int) bool { return p.Needs(id, tokens) <= p.Free() }

// Compute adds tokens of a request to the pass: at least 1, and at most its remaining tokens. There must be enough
// free KV blocks. Compute admits a waiting request, and its tokens start after the cached tokens. A request without
// remaining tokens gains a token at the end of the pass. Requests that gain their last token leave in the order of
// their Compute calls.
func (p *Plan) Compute(id sim.RequestID, tokens int) {
	r := p.find(id)
	if r == nil {
		return
	}
	c := p.core
	hits := 0
	if !r.runs {
		hits = c.pool.countHits(r)
	}
	before := r.computed + hits*c.cfg.BlockTokens
	switch left := r.known() - before; {
	case r.planned == c.plans:
		p.fail(id, "is given tokens a second time in the pass, expected once")
	case r.lost == c.plans:
		p.fail(id, "is given tokens in the pass in which it lost its place, must be a later one")
	case tokens < 1 || tokens > left:
		reason := fmt.Sprintf("is given %d tokens, must be 1 to the %d that it has left", tokens, left)
		if hits > 0 {
			reason += fmt.Sprintf(" after the %d that are cached", before)
		}
		p.fail(id, reason)
	default:
		if need := c.pool.countNeed(r, before+tokens, hits); need > c.pool.free {
			p.fail(id, fmt.Sprintf("is given %d tokens, which take %d free KV blocks, and %d of %d are free", tokens, need, c.pool.free, c.cfg.Blocks))
			return
		}
		c.giveTokens(r, share{r: r, before: before, tokens: tokens, samples: tokens == left}, hits)
	}
}

// Preempt preempts a running request that has no tokens in this pass, and releases its KV blocks. The cached blocks
// of the request stay cached until other requests need the blocks. The request moves to the front of the waiting
// requests.
func (p *Plan) Preempt(id sim.RequestID) {
	r := p.find(id)
	if r == nil {
		return
	}
	switch c := p.core; {
	case !r.runs:
		p.fail(id, "is to lose its place, and has none")
	case r.planned == c.plans:
		p.fail(id, "is to lose its place in a pass that computes tokens of it")
	default:
		c.preempt(r)
	}
}

// WaitUntil makes the worker idle until a later instant, or until a request arrives at the worker. At the end of the
// wait, Plan is called again. A pass that waits computes nothing.
func (p *Plan) WaitUntil(at sim.Time) {
	if p.over {
		return
	}
	if !(at > p.Now) || math.IsInf(float64(at), 0) {
		p.fail(-1, fmt.Sprintf("to wait until %v ms at %v ms, must be a later, finite instant", float64(at), float64(p.Now)))
		return
	}
	p.wait = at
}

// find returns a request on the worker that may be planned, or nil if the call is invalid.
func (p *Plan) find(id sim.RequestID) *request {
	if p.err != nil || p.over {
		return nil
	}
	r := p.core.byID[id]
	switch {
	case r == nil && id < 0:
		p.fail(-1, fmt.Sprintf("request %d is not on this worker", id))
	case r == nil:
		p.fail(id, "is not on this worker")
	}
	return r
}

// fail records the first invalid call.
func (p *Plan) fail(id sim.RequestID, reason string) {
	if p.err == nil {
		p.err = &PlanError{Request: id, Reason: reason}
	}
}

// open prepares p for a pass.
func (p *Plan) open(c *Core, now sim.Time) {
	p.core, p.Now, p.wait, p.err, p.over = c, now, 0, nil, false
	p.shares, p.Running, p.Waiting = p.shares[:0], p.Running[:0], p.Waiting[:0]
	line := c.waiting.All()
	p.Running, p.Waiting = slices.Grow(p.Running, len(c.running)), slices.Grow(p.Waiting, len(line))
	for _, r := range c.running {
		p.Running = append(p.Running, &r.Request)
	}
	for _, r := range line {
		p.Waiting = append(p.Waiting, &r.Request)
	}
}
