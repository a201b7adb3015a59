// Package vllm is the scheduler core of a simulated vLLM engine, by vLLM's own
// rules (docs/rules/vllm.md). Prompts and answers share a pass. The core plans a pass
// while the one before it runs, and takes blocks when it schedules tokens. A value of Rules
// selects the release with the rules that it follows. The package reference below it is the core with the rules of the
// reference simulator, for the same Config.
//
// A request has no prefill and no decode state. Its target is the number of its tokens that are known or in flight. A
// pass computes some of the missing tokens, and a request that reaches its target gains a token.
//
// Read the package config, then core.go, request.go, plan.go, admit.go,
// the package gate, deliver.go, calm.go and run.go, then pool.go for the KV blocks with
// segments.go, layer.go and the package segment, device.go for single ones, offloaded.go, connector.go, loop.go and simple.go for host memory behind these, rank.go for
// data-parallel ranks, pull.go for KV caches that go from prefill to decode workers, layered.go and groups.go for groups of layers, measure.go for
// what a pass costs, and the package events and view.go for the views of it.
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

// Core is one vLLM engine's scheduler.
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
	running  []slot     // in order of admission
	kept     []slot     // gone, with KV blocks that are to be sent, in the order in which they went
	arrived  uint64     // requests submitted so far
	admitted uint64     // admissions so far
	pool     pool       // the KV blocks
	groups   groupPool  // the same where layers have windows, or nil
	conn     *connector // to host memory behind them, or nil
	supply   supply     // of them
	events   events.Log
	calm     calm
	gate     gate.Gate

	// Passes that are planned: the one that runs next, and with two in flight
	// the one after it.
	next, after *flight
	passes      int64 // passes run so far
	plans       int64 // passes planned so far
	stuck       bool  // the line was read and its head found no place, and nothing has left one since
	idle        bool  // the running pass computes nothing: it waits for a transfer, or naps
	progress    progress
	apart       apart // of a data-parallel rank
	cold        bool  // the pass that takes longer on a fresh engine is to come
}

// New returns an idle engine. Requests that Config.Fits refuses must not reach
// it.
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

// Able returns what the core can do apart from running passes.
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

// Load returns the number of requests submitted and not finished.
func (c *Core) Load() int { return c.live }

// Submit queues r, which Config.Fits, at the end.
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

// joinLine puts s into the line: where its rank is, or first come, first served,
// at the end or at the front.
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

// Step runs the pass that starts at now, and those after it in which nothing happens
// but more tokens for steady requests. With two passes in flight it also plans the pass
// that follows, by what is known now.
func (c *Core) Step(now, until sim.Time, p *scheduler.Pass) error {
	if until > now {
		if n := c.countAlike(now); n > 0 {
			if p.Reset(now); c.conn != nil {
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

// progress is what keeps a core from passes without end.
type progress struct {
	barren  int  // passes in a row without a token or a request further on
	further bool // a pass without its token got a request further than ever before
	held    int  // requests that no worker has taken, and transfers, after the latest pass
}

// Begin is the first half of Step for a pass with an external duration, as with several engines in lockstep: it plans
// the pass that starts at now and returns its work, which is valid until the next Begin. The caller sets p.End and then
// calls End.
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

// End is the second half of Step: the pass that Begin planned ends at p.End.
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

// Line returns the number of requests that wait and that run, as the server
// tells its front end.
func (c *Core) Line() (waiting, running int) {
	return c.waiting.Len() + c.pool.Fetching(), len(c.running)
}

// Room returns the free KV blocks, less what the requests in line need.
func (c *Core) Room() int {
	room := c.supply.free
	for _, s := range c.waiting.All() {
		room -= (c.requests[s].target + c.mask) >> c.shift
	}
	return room
}

// barrenLimit is the number of passes in a row without a token and without a
// request further on that counts as a stall.
const barrenLimit = 100_000

// heldLimit is the same while blocks are held for a copy, or for workers that may still read them. The end of either ends a row.
const heldLimit = 10 * barrenLimit

// checkProgress complains about requests that keep preempting each other.
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

// stallError explains why nothing can run.
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
