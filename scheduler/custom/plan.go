package custom

import (
	"fmt"
	"math"
	"slices"

	"github.com/replay-llm/replay/sim"
)

// Plan is a pass that an engine plans: the requests, and what may be done. What is done takes effect at once,
// on the KV blocks that are free and on the fields of requests.
//
// What cannot be done ends the replay with an error that names the worker, the instant and the request. Until
// Plan returns, nothing more is done then, and everything fits.
type Plan struct {
	// Now is when the pass starts.
	Now sim.Time
	// Running are the requests with a place when the pass starts, in order of admission, and Waiting those
	// without one: first preempted ones, the latest in front, then the rest by arrival. The lists are
	// copies, which may be put into another order; Compute and Preempt do not change them.
	Running, Waiting []*Request

	core   *Core
	shares []share
	wait   sim.Time // 0: nothing is waited for
	err    error    // what could not be done first
	over   bool     // Plan has returned: nothing can be done any more
}

// share is what a pass computes for one request.
type share struct {
	r              *request
	before, tokens int
	samples        bool // the request gains a token
}

// Free returns the number of KV blocks that no request holds. Some may be cached: they are evicted when other requests
// are taken.
func (p *Plan) Free() int { return p.core.pool.free }

// Cached returns how many tokens of a request that waits would be found cached if it were admitted now. The
// last token that is known is always computed.
func (p *Plan) Cached(id sim.RequestID) int {
	r := p.core.byID[id]
	if r == nil || r.runs {
		return 0
	}
	return p.core.pool.countHits(r) * p.core.cfg.BlockTokens
}

// Needs returns how many of the free KV blocks it takes to compute n more tokens of a request, after
// the cached ones if it waits. These take some, too, where no other request holds them.
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

// Fits reports whether there are enough free KV blocks for n more tokens of a request.
func (p *Plan) Fits(id sim.RequestID, tokens int) bool { return p.Needs(id, tokens) <= p.Free() }

// Compute adds tokens of a request to the pass, at least 1 and at most its remaining tokens, for which there must be
// enough free KV blocks. One that waits is admitted by it, and begins after what is cached. A request that has nothing
// left gains a token at the end of the pass. Requests that gain their last token leave in the order in which they were
// given tokens.
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

// Preempt takes its place and its KV blocks from a request that runs, and has been given nothing in this pass.
// What is cached of it stays so until other requests take the blocks. It goes to the front of the waiting requests.
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

// WaitUntil has the worker do nothing until a later instant, or until a request comes to it: the engine is
// asked again then. A pass that waits computes nothing.
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

// find returns a request that is here and may be planned, nil if that cannot be.
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

// fail notes the first thing that cannot be done.
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
