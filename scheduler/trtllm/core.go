// Package trtllm is the scheduler core of a simulated TensorRT-LLM engine, by the published source of its PyTorch
// backend, see docs/rules/trtllm.md. The simulated rules were not compared with a running engine.
//
// Read config.go and rules.go, then core.go, request.go, plan.go, capacity.go, microbatch.go, pool.go, deliver.go,
// run.go, host.go, events.go, handover.go. Ranks in lockstep are in ranks.go.
package trtllm

import (
	"fmt"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Core is the scheduler of one TensorRT-LLM engine.
type Core struct {
	scheduler.Base
	Config
	pool pool
	live int // submitted requests that are not finished

	line   scheduler.Line[*request] // requests that are not active yet
	active []*request               // active requests in order of arrival, at most MaxBatch
	chosen chosen

	next, after *flight // the next pass, and with Overlap the pass after it

	pending []*request
	prompts []*request
	coming  map[place]struct{}
	failed  []*request
	sending []sent     // requests of a prefill worker with a KV cache in transfer
	firsts  []*request // requests that received their first token from another worker with the running pass
	running bool       // a pass is in progress while the next pass is planned
	claimed []holding
	waits   int   // consecutive plans without prompts, see waitForBatch
	passes  int64 // number of passes run
	short   int   // requests that a plan left out because no block was free
	step    timing.Step
	gate    *gate         // gate of ranks in lockstep; nil without ranks
	gone    [2][]*request // requests that left since the latest pass ended, and in the pass before; plans may still refer to them
	spare   []*request    // requests that left earlier, for reuse
	onFetch func()        // set only in tests that submit requests between plans
}

// flight is a planned pass.
type flight struct {
	ctx, gen []visit
	planned  bool
	ready    sim.Time // end of the pass's copies to and from host memory
}

// visit is the part of a request in a pass.
type visit struct {
	*request
	before  int // tokens with KV before the pass
	tokens  int // computed tokens
	samples bool
	first   bool // the request is admitted in this pass
	again   bool // the request was paused before
	reused  int  // prompt tokens found in the cache
}

func (f *flight) clear() { f.ctx, f.gen, f.planned = f.ctx[:0], f.gen[:0], false }

// New returns an idle core.
func New(c Config) (*Core, error) {
	if err := checkConfig(c); err != nil {
		return nil, err
	}
	core := &Core{Config: c, next: new(flight), after: new(flight), coming: map[place]struct{}{}}
	core.pool = newPool(&core.Config)
	return core, nil
}

// Submit appends q to the waiting requests.
func (c *Core) Submit(q *sim.Request) {
	r := c.takeSpare()
	*r = request{Request: q, prompt: q.InputTokens, known: q.InputTokens, limit: q.OutputTokens, pass: -1, held: r.held}
	if c.Limit != nil {
		r.limit = c.Limit(q)
	}
	if c.MaxLength > 0 {
		r.limit = min(r.limit, c.MaxLength-q.InputTokens)
	}
	r.left = r.limit
	r.arrived = c.Role == scheduler.Decode && !q.Local
	c.queue(r)
	c.live++
}

// queue inserts r after all waiting requests, or with ByPriority after all requests that are at least as urgent.
func (c *Core) queue(r *request) {
	all := c.line.All()
	i := len(all)
	for c.ByPriority && i > 0 && all[i-1].Priority > r.Priority {
		i--
	}
	c.line.Insert(i, r)
}

// takeSpare returns an unused request, or a new one.
func (c *Core) takeSpare() *request {
	last := len(c.spare) - 1
	if last < 0 {
		return new(request)
	}
	r := c.spare[last]
	c.spare = c.spare[:last]
	return r
}

// Able returns the optional abilities of the core.
func (c *Core) Able() scheduler.Ability {
	able := scheduler.Rooms | scheduler.Remembers
	if c.KeepSent {
		able |= scheduler.Keeps
	}
	return able
}

// Nodes calls need with every prompt node that has cached blocks, including blocks in host memory.
func (c *Core) Nodes(need func(prompt.NodeID)) {
	for i := range c.pool.all {
		if k := &c.pool.all[i]; k.n > 0 && k.ref >= 0 && k.ref < ownPrompt {
			need(prompt.NodeID(k.ref))
		}
	}
}

// Load returns the number of submitted requests that are not finished.
func (c *Core) Load() int { return c.live }

// Line returns the numbers of waiting and running requests.
func (c *Core) Line() (waiting, running int) {
	for _, r := range c.active {
		if r.slots > 0 {
			running++
		}
	}
	return c.live - running, running
}

// SetClock sets the clock of later passes.
func (c *Core) SetClock(clock timing.Clock) { c.Clock = clock }

// Step runs the pass that starts at now, or a run of equal passes. Only the first pass may start at until or later.
// With Overlap, Step also plans the next pass.
func (c *Core) Step(now, until sim.Time, p *scheduler.Pass) error {
	if n := c.countAlike(); n > 1 && c.next.ready <= now {
		return c.takeRun(n, now, until, p)
	}
	return c.stepOnce(now, p)
}

// stepOnce runs the pass that starts at now.
func (c *Core) stepOnce(now sim.Time, p *scheduler.Pass) error {
	step, err := c.Begin(now, p)
	if err != nil || step == nil {
		return err
	}
	ms, err := c.Clock.Step(step)
	if err != nil {
		return err
	}
	ms += c.next.wait(now)
	p.End = now + sim.Time(ms)
	if n, ok := timing.InNanos(ms); ok {
		p.Nanos = append(p.Nanos, n)
	}
	return c.End(p)
}

// Begin is the first half of Step, for ranks in lockstep: it plans the pass that starts at now and returns its work.
// If there is no work, the pass has ended: the pass has aborted requests, delivered first tokens or waits for
// transfers.
func (c *Core) Begin(now sim.Time, p *scheduler.Pass) (*timing.Step, error) {
	c.openPass(now, p)
	if err := c.planFirst(p); err != nil {
		return nil, err
	}
	switch {
	case p.Blocked:
		return nil, nil
	case !c.next.planned && len(c.sending) > 0 && p.Tokens == 0 && len(p.Aborted) == 0:
		c.waitForSent(p)
		return nil, nil
	case !c.next.planned, p.Tokens > 0: // first tokens are delivered before the pass
		p.Nanos = append(p.Nanos, 0)
		c.endPass(p)
		return nil, nil
	}
	c.announcePass(p)
	c.measurePass()
	c.planDuring(p)
	return &c.step, nil
}

// planDuring does the work of the host while pass p runs: with Overlap it plans the next pass.
func (c *Core) planDuring(p *scheduler.Pass) {
	c.running = true
	if c.Overlap {
		c.planPass(c.after, p)
	} else if c.gate != nil {
		c.fetch()
		c.admitArrived(p)
	}
	c.running = false
}

// openPass resets p for the pass that starts at now.
func (c *Core) openPass(now sim.Time, p *scheduler.Pass) {
	p.Reset(now)
	p.KVAtEnd = true
	c.pool.now = now
}

// planFirst plans the next pass if it is not planned yet, and plans again if the plan only paused requests. No pass
// is planned if the plan has aborted requests instead.
func (c *Core) planFirst(p *scheduler.Pass) error {
	for !c.next.planned {
		again := c.planPass(c.next, p)
		c.pausePaused()
		switch {
		case c.next.planned && c.Overlap:
			c.advance(c.next)
		case c.next.planned, again:
		case len(p.Aborted) > 0, p.Tokens > 0, len(c.sending) > 0:
			return nil
		default:
			return c.stallError()
		}
	}
	return nil
}

// End is the second half of Step: it ends the pass that Begin planned, at p.End.
func (c *Core) End(p *scheduler.Pass) error {
	p.Gap = p.End - p.Start
	c.pool.now = p.End
	c.spare = append(c.spare, c.gone[1]...)
	c.gone[0], c.gone[1] = c.gone[1][:0], c.gone[0]
	f := c.next
	if c.Overlap {
		c.deliver(f, p)
		c.pausePaused()
		c.advance(c.after)
	} else {
		c.advance(f)
		c.deliver(f, p)
	}
	c.finish(f, p.End)
	c.next, c.after = c.after, f
	f.clear()
	if c.live == 0 {
		c.next.clear() // the requests of the planned pass have ended
	}
	c.passes++
	c.endPass(p)
	return nil
}

// endPass records the changes of the cache and the occupancy of the engine.
func (c *Core) endPass(p *scheduler.Pass) {
	p.KV = append(p.KV, c.pool.kv...)
	c.pool.kv = c.pool.kv[:0]
	c.pool.events.publish(p)
	for _, r := range c.firsts {
		r.lastAt = p.End
	}
	c.firsts = c.firsts[:0]
	if d := p.Detail; d != nil {
		d.PrefillEnd = p.Start
		waiting, running := c.Line()
		d.Running, d.Waiting = running, waiting
		d.Blocks, d.Held, d.Cached = c.pool.total, c.pool.total-c.pool.free, c.pool.cached
	}
	c.pool.check(c.active, c.sending)
}

// announcePass records the requests admitted in the pass that begins.
func (c *Core) announcePass(p *scheduler.Pass) {
	for i := range c.next.ctx {
		v := &c.next.ctx[i]
		if v.first {
			p.Admitted = append(p.Admitted, scheduler.Admission{Request: v.ID, Again: v.again, Reused: min(v.reused, v.InputTokens), FromHost: min(v.loaded, v.InputTokens)})
		}
		w := scheduler.NewWork(v.Request, v.before, v.tokens)
		p.PrefillTokens += w.Prompt
		if p.Detail != nil {
			p.Detail.Work = append(p.Detail.Work, w)
		}
	}
}

// measurePass computes the work of the pass that begins.
func (c *Core) measurePass() {
	c.step = timing.Step{Active: c.countHeld(), Capacity: c.pool.total * c.BlockTokens}
	s := &c.step
	for i := range c.next.gen {
		s.AddDecode(1, c.next.gen[i].before+1)
	}
	for i := range c.next.ctx {
		v := &c.next.ctx[i]
		s.AddChunk(v.tokens, v.before, v.before+v.tokens)
	}
}

// countHeld returns the number of tokens of KV cache in use, in whole blocks.
func (c *Core) countHeld() int {
	if c.hasBlocks() {
		return (c.pool.total - c.pool.free) * c.BlockTokens
	}
	n := 0
	for _, r := range c.active {
		n += countBlocks(r.slots, c.BlockTokens) * c.BlockTokens
	}
	return n
}

// stallError returns the reason why nothing can run.
func (c *Core) stallError() error {
	var r *request
	switch {
	case len(c.active) > 0:
		r = c.active[0]
	case c.line.Len() > 0:
		r = c.line.Front()
	default:
		return &scheduler.StallError{Reason: "no request is left"}
	}
	return &scheduler.StallError{Request: r.ID, Reason: fmt.Sprintf(
		"nothing can run: input_length %d, output_length %d, %d of %d KV blocks are free, %d requests have none to grow",
		r.InputTokens, r.OutputTokens, c.pool.free, c.pool.total, c.short)}
}
