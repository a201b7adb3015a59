// Package vllm is the scheduler core of a simulated vLLM engine by vLLM's own rules (docs/rules/vllm.md). Prompts and
// answers share a pass. The core plans a pass while the previous pass runs, and allocates blocks when it schedules
// tokens. A value of Rules selects the rules of a release. Package reference is a core with the rules of the
// reference simulator, for the same Config.
//
// A request has no prefill and no decode state. The target of a request is the number of its tokens that are known or
// in flight. A pass computes some of the missing tokens, and a request that reaches its target gains a token.
//
// Read package config, then core.go, request.go, plan.go, admit.go, package gate, deliver.go, calm.go and run.go. KV
// blocks are in pool.go, with segments.go, layer.go and package segment for segments and device.go for single blocks.
// Host memory is in offloaded.go, connector.go, loop.go and simple.go, data-parallel ranks in rank.go, and transfers
// from prefill to decode workers in pull.go. Groups of layers are in layered.go and groups.go, the work of a pass in
// measure.go, and its reports in package events and view.go.
package vllm

import (
	"errors"
	"fmt"
	"math/bits"
	"sort"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm/events"
	"github.com/replay-llm/replay/scheduler/vllm/gate"
	"github.com/replay-llm/replay/sim"
)

// Core is the scheduler of one vLLM engine.
type Core struct {
	scheduler.Base
	cfg   Config
	rules Rules
	shift uint // BlockTokens = 1 << shift
	mask  int  // BlockTokens - 1

	requests []request
	unused   []slot
	drafts   drafts // speculative decoding
	live     int
	waiting  scheduler.Line[slot]
	running  []slot     // running requests in order of admission
	kept     []slot     // requests that have left while their KV blocks are to be sent, in the order in which they left
	arrived  uint64     // number of submitted requests
	admitted uint64     // number of admissions
	pool     pool       // the KV blocks
	groups   groupPool  // the same pool if layers have windows; otherwise nil
	conn     *connector // connector to host memory; nil: none
	supply   supply     // numbers of KV blocks
	events   events.Log
	calm     calm
	gate     gate.Gate

	// Planned passes: the next pass, and with two passes in flight the pass after it.
	next, after *flight
	passes      int64 // number of passes run
	plans       int64 // number of plans
	stuck       bool  // the head of the queue was not admitted, and no slot or block has become free since
	idle        bool  // the running pass has no work, but waits for a transfer or sleeps
	progress    progress
	apart       apart // state of a data-parallel rank
	cold        bool  // the longer first pass of a fresh engine has not run yet
}

// New returns an idle engine. Requests that Config.Fits rejects must not be submitted.
func New(cfg Config) (*Core, error) {
	if err := cfg.CheckWindows(); err != nil {
		return nil, err
	}
	if cfg.Budget() < 1 {
		return nil, fmt.Errorf("%s is %d, must be more than %s %d with a draft model, as a pass keeps a token for each", TokensKey, cfg.MaxBatchedTokens, SeqsKey, cfg.MaxSeqs)
	}
	if !cfg.Rules.OwnInterval {
		cfg.PrefillInterval = 0
	}
	if cfg.Capture == scheduler.CaptureResidency && (cfg.HashesAhead() || cfg.Windows.Given() && cfg.Windows.Full == 0 || !cfg.PrefixCaching) {
		return nil, errors.New("capture by residency: must be events, since a block may outlive the one before it, or not be named by content")
	}
	c := &Core{
		cfg: cfg, rules: cfg.Rules,
		shift: uint(bits.TrailingZeros(uint(cfg.BlockTokens))), mask: cfg.BlockTokens - 1,
		next: new(flight), after: new(flight),
	}
	c.drafts = drafts{core: c, ahead: cfg.HashesAhead()}
	c.pool, c.cold = newPool(c), cfg.Warmup.Given()
	if s := cfg.Speculation; s != nil && s.Method == scheduler.ByDraftModel && c.rules.DraftSlots {
		c.drafts.draftSlots = 1
	}
	c.events.Init(c.cfg.Capture, c.cfg.Tree, c.cfg.HashesAhead())
	c.calm.init(&c.cfg)
	return c, nil
}

// Able returns the optional abilities of the core.
func (c *Core) Able() scheduler.Ability {
	able := scheduler.Rooms | scheduler.Keeps | scheduler.Shows | scheduler.Warms
	if c.cfg.Pull {
		able |= scheduler.Pulls
	}
	if c.remembers() {
		able |= scheduler.Remembers
	}
	return able
}

// Load returns the number of submitted requests that are not finished.
func (c *Core) Load() int { return c.live }

// Submit appends r to the queue. Config.Fits must accept r.
func (c *Core) Submit(r *sim.Request) {
	s := c.takeSlot()
	c.requests[s].init(s, r, &c.cfg)
	if c.conn != nil {
		c.conn.beginRequest(&c.requests[s])
	}
	c.arrived++
	c.requests[s].rank.number = c.arrived
	c.stuck = c.stuck && c.waiting.Len() > 0
	c.joinLine(s, false)
	c.live++
	c.events.AddRequest(r)
}

// joinLine inserts s into the queue: by rank with priorities, otherwise at the end or at the front.
func (c *Core) joinLine(s slot, front bool) {
	switch {
	case c.cfg.Scheduling == ByPriority:
		r := &c.requests[s].rank
		all := c.waiting.All()
		c.waiting.Insert(sort.Search(len(all), func(i int) bool { return r.before(&c.requests[all[i]].rank) }), s)
	case front:
		c.waiting.PushFront(s)
	default:
		c.waiting.PushBack(s)
	}
}

// Step runs the pass that starts at now, and the following passes if steady requests only gain tokens in them. With
// two passes in flight, Step also plans the pass after it, with the state known at now.
func (c *Core) Step(now, until sim.Time, p *scheduler.Pass) error {
	if until > now && c.isCalm(now) {
		p.Reset(now)
		if n := c.countAlike(p); n > 0 {
			if c.conn != nil {
				until = c.conn.QuietUntil(until)
			}
			return c.takeRun(n, until, p)
		}
	}
	step, err := c.Begin(now, p)
	if err != nil || p.Blocked {
		return err
	}
	if c.conn != nil {
		err = c.conn.setEnd(p)
	} else {
		err = c.setEnd(step, p)
	}
	if err != nil {
		return err
	}
	return c.End(p)
}

// progress detects endless passes without progress.
type progress struct {
	barren  int  // number of consecutive passes without a token and without further
	further bool // some request of a pass without a token has more tokens computed than ever before
	held    int  // number of kept requests and pending transfers after the latest pass
}

// Begin is the first half of Step. Begin is used if the caller determines the duration of a pass, for example with
// several engines in lockstep. Begin plans the pass that starts at now and returns its work, which is valid until the
// next Begin. The caller sets p.End and then calls End.
func (c *Core) Begin(now sim.Time, p *scheduler.Pass) (*timing.Step, error) {
	p.Reset(now)
	c.events.BeginPass(p)
	if c.conn != nil {
		c.conn.Out = p
		return c.conn.begin(now, p)
	}
	c.progress.further = false
	if c.cfg.Speculation != nil {
		if err := c.drafts.runEmptyPass(now); err != nil {
			return nil, err
		}
	}
	if now < c.drafts.awake {
		c.idle = true
		c.after.clear()
		return &c.next.step, nil
	}
	if c.next.isEmpty() {
		if c.planPass(c.next, p); c.apart.tells != nil {
			*c.apart.tells = c.countRequests()
		}
	}
	c.idle = c.next.isEmpty()
	if c.idle {
		if p.Preempted == 0 && len(c.kept) == 0 {
			return nil, c.stallError()
		}
		if p.Blocked = p.Preempted == 0; p.Blocked {
			return nil, nil
		}
		c.drafts.awake = now + sim.Time(c.rules.EmptyPassMs)
	}
	c.after.clear()
	if c.rules.TwoInFlight && !c.idle && !c.apart.waits {
		c.planPass(c.after, p)
	}
	return &c.next.step, nil
}

// End is the second half of Step: it ends the pass that Begin planned, at p.End.
func (c *Core) End(p *scheduler.Pass) error {
	if c.conn != nil {
		return c.conn.end(p)
	}
	f := c.next
	c.next, c.after = c.after, f
	c.deliverTokens(f, p)
	p.Gap = p.End - p.Start
	c.passes++
	if c.apart.drained = c.rules.TwoInFlight && !c.idle && !c.apart.waits && c.next.isEmpty(); c.apart.drained && (c.live > 0 || c.rules.EmptyPassIdle) {
		c.drafts.awake = p.End + sim.Time(c.rules.EmptyPassMs)
	}
	c.describePass(f, p)
	if c.cfg.Speculation != nil {
		c.drafts.freeSlots(p.End)
	}
	c.checkAccounts()
	return c.checkProgress(p)
}

// Line returns the numbers of waiting and running requests that the server reports to its front end.
func (c *Core) Line() (waiting, running int) {
	return c.waiting.Len() + c.pool.Fetching(), len(c.running)
}

// Room returns the free KV blocks minus the blocks that queued requests need.
func (c *Core) Room() int {
	room := c.supply.free
	for _, s := range c.waiting.All() {
		room -= (c.requests[s].target + c.mask) >> c.shift
	}
	return room
}

// barrenLimit is the number of consecutive passes without progress that counts as a stall.
const barrenLimit = 100_000

// heldLimit is the limit instead of barrenLimit while blocks are held for copies, or for workers that may still read
// them. The end of a copy or of a read resets the count.
const heldLimit = 10 * barrenLimit

// checkProgress returns an error if requests keep preempting each other.
func (c *Core) checkProgress(p *scheduler.Pass) error {
	held, limit := len(c.kept), barrenLimit
	if c.conn != nil {
		held += c.conn.Pending
	}
	if p.Tokens > 0 || c.progress.further || held != c.progress.held {
		c.progress.barren, c.progress.held = 0, held
		return nil
	}
	if len(c.kept) > 0 || c.pool.Busy() && p.End > p.Start {
		limit = heldLimit
	}
	if c.progress.barren++; c.progress.barren < limit || c.live == 0 {
		return nil
	}
	return &scheduler.StallError{Request: c.requests[c.nextInLine()].id, Reason: fmt.Sprintf(
		"%d passes without a token: requests keep preempting each other for %d KV blocks", c.progress.barren, c.cfg.Blocks)}
}

// nextInLine returns the request that should continue next.
func (c *Core) nextInLine() slot {
	if c.waiting.Len() > 0 {
		return c.waiting.Front()
	}
	if len(c.running) == 0 {
		return c.conn.aside[0]
	}
	return c.running[0]
}

// stallError returns the reason why nothing can run.
func (c *Core) stallError() error {
	r := &c.requests[c.nextInLine()]
	reason := fmt.Sprintf("nothing can run: %d of %d tokens computed, %d of %d KV blocks to be had",
		r.computed, r.target, c.supply.free, c.cfg.Blocks)
	if left := r.target - r.computed; !c.cfg.ChunkedPrefill && left > c.cfg.Budget() {
		reason = fmt.Sprintf("%d tokens to compute with chunked prefill off, must be at most %s %d",
			left, TokensKey, c.cfg.MaxBatchedTokens)
	}
	return &scheduler.StallError{Request: r.id, Reason: reason}
}
