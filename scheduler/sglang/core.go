// Package sglang is the scheduler core of a simulated SGLang engine, by SGLang's own
// rules; docs/rules/sglang.md has them. Below it the package reference has those of the
// reference simulator, and the package radix the cache of both.
//
// A decode pass gives each running request a token and touches none of them: passes are
// counted, and written out when something else happens to a request.
//
// Layers that attend to a window have a separate pool (windows.go), next to that of the other layers.
//
// Read config.go and rules.go, then core.go, request.go, batch.go, plan.go, admit.go, exact.go, clip.go, run.go,
// retract.go, deliver.go, drafts.go, cancel.go, queue.go, shortest.go, priority.go; ranks.go for several of them in lockstep;
// handover.go and decode.go for prefill and decode workers;
// pages.go and eviction.go for the cache, hicache.go for host memory behind it, storage.go and disk.go for what is behind that; record.go and pageevents.go for what a router is shown of it; view.go for what
// planners and observers see.
package sglang

import (
	"fmt"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang/radix"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Core is one SGLang engine's scheduler. Its parts have a separate duty and state, and know the core
// around them.
type Core struct {
	scheduler.Base
	Config
	ratio ratio
	live  int // requests submitted and not finished

	queue    queue   // requests in line, see queue.go
	batch    batch   // requests that run, see batch.go
	pages    pages   // the token pool and the prefix cache, see pages.go
	win      windows // the pool of layers that attend to a window, see windows.go
	drafts   drafts  // speculative decoding, see drafts.go
	tiers    *tiers  // host memory behind the pool, nil: none
	decoding         // on decode workers, see decode.go
	outbox   outbox  // on prefill workers, see handover.go

	partial *request // prefilled in part: continues before any request is admitted
	parked  bool     // nothing of it was computed since it was put into the tree
	merging []visit  // the prompts of the latest pass, when it was a prefill
	mixed   bool     // that pass was one of prompts and tokens
	spare   []*request
	record  recorder

	next, after *flight // the pass that runs next, and with Overlap the one after it
	step        timing.Step
	lastEnd     sim.Time // of the latest pass
	lastDecode  sim.Time // the end of the latest decode pass
	stays       []stay
	before      counts             // the latest run of passes
	view        scheduler.Snapshot // of the running pass, for planners
	isRank      bool               // it is one of several ranks
	board       *board             // where it tells its load, as such
}

// New returns an idle core.
func New(c Config) (*Core, error) {
	if err := Check(c); err != nil {
		return nil, err
	}
	core := &Core{
		Config: c, ratio: newRatio(c.Conservativeness), next: new(flight), after: new(flight),
	}
	core.queue.core, core.batch.core, core.win.core, core.drafts.core, core.decoding.core, core.outbox.core = core, core, core, core, core, core
	core.pages = pages{core: core, pool: c.Pages * c.PageTokens, caching: c.PrefixCaching, tree: radix.New(c.Tree.PerNode())}
	if core.decoding.receivesKV() {
		core.pages.caching = false
	}
	core.pages.tree.StampSplits = true
	core.Eviction.PageTokens = c.PageTokens
	core.pages.tree.UseEviction(core.Eviction)
	core.pages.pairs = c.Speculation != nil && c.Speculation.Algorithm == scheduler.ByHead
	core.ChunkTokens = floorTo(c.ChunkTokens, c.PageTokens)
	core.pages.free = core.pages.pool
	core.batch.totals.phase = make([]int32, c.PageTokens)
	core.win.startWindows()
	if c.HiCache.Pages > 0 {
		core.attachHost(c.HiCache)
	}
	core.startRecord()
	return core, nil
}

// Submit queues r at the back.
func (c *Core) Submit(r *sim.Request) {
	q := c.newRequest()
	*q = request{Request: r, seq: radix.NewSequence(r), maxOut: c.clipOutput(r.InputTokens, r.OutputTokens), epoch: q.epoch + 1, hit: -1, place: notRunning}
	if c.pages.pairs {
		q.seq.Pairs, q.seq.Full = 1, c.pages.pagesOf(c.queue.ownPrompt(r))
		if c.Tree.Straddles() {
			q.seq.Next = c.Tree.AppendLeads(nil, q.seq.Nodes)
		}
	}
	c.queue.joinQueue(q)
	c.live++
}

func (c *Core) newRequest() *request {
	if last := len(c.spare) - 1; last >= 0 {
		r := c.spare[last]
		c.spare = c.spare[:last]
		return r
	}
	return new(request)
}

// forgetRequest releases a request that holds nothing any more.
func (c *Core) forgetRequest(r *request) {
	r.epoch++
	r.Request = nil
	c.spare = append(c.spare, r)
	c.live--
}

// Able returns what the core can do apart from running passes.
func (c *Core) Able() scheduler.Ability {
	able := scheduler.Shows | scheduler.Warms
	if !c.HiCache.Storage.On {
		able |= scheduler.Remembers
	}
	return able
}

// Nodes calls need with every prompt node that has cached pages, also in host memory, and with the nodes of unpublished
// changes.
func (c *Core) Nodes(need func(prompt.NodeID)) {
	c.pages.tree.Nodes(need)
	c.record.nodes(need)
}

// Load returns the number of requests submitted and not finished.
func (c *Core) Load() int { return c.live }

// Line returns the number of requests that wait and that run.
func (c *Core) Line() (waiting, running int) {
	waiting = c.queue.waiting.Len() + len(c.retracted) + len(c.arrived)
	return waiting, c.live - waiting
}

// Step runs the pass that starts at now, and those after it that only give a token to each
// running request. With Overlap it also plans the pass that follows, by what is known now.
func (c *Core) Step(now, until sim.Time, p *scheduler.Pass) error {
	if until > now {
		if n := c.countAlike(now); n > 1 {
			return c.takeRun(n, now, until, p)
		}
	}
	if c.decoding.receivesKV() {
		if alone, err := c.decoding.takeIn(now, p); alone || err != nil {
			return err
		}
	}
	if c.Speculation != nil {
		if idle, err := c.drafts.runEmptyPass(now, p); idle || err != nil {
			return err
		}
	}
	c.tiers.openWait(now)
	step, err := c.Begin(now, p)
	if err != nil && c.outbox.waitForArrival(p) {
		return nil
	}
	if err != nil || step == nil {
		return err
	}
	ms, err := c.Clock.Step(step)
	if err != nil {
		return err
	}
	if c.tiers != nil {
		ms = c.tiers.stretchPass(c.next, ms)
	}
	p.End = now + sim.Time(ms)
	if n, ok := timing.InNanos(ms); ok {
		p.Nanos = append(p.Nanos, n)
	}
	return c.End(p)
}

// Begin is the first half of Step, for a pass with a duration that the core does not set,
// as when several engines run in lockstep: it plans the pass that starts at now and
// returns its work, which is valid until the next Begin. The caller sets p.End and then
// calls End. Without work the pass has ended: it has aborted requests, or waits for copies of host memory.
func (c *Core) Begin(now sim.Time, p *scheduler.Pass) (*timing.Step, error) {
	if !c.decoding.receivesKV() { // which has opened it already
		c.openPass(now, p)
	}
	fresh := !c.next.planned
	for again := true; again && !c.next.planned; { // if preemption left the engine idle, or prompts were to wait for no request
		preempted, deferred, aborted := p.Preempted, c.queue.deferred, len(p.Aborted)
		c.planPass(c.next, p)
		again = p.Preempted > preempted || deferred > 0 || len(p.Aborted) > aborted && !c.isRank
		if !c.next.planned {
			c.queue.deferred = 0
		}
	}
	if fresh && c.tiers != nil && c.tiers.waitForCopies(p) {
		return nil, nil
	}
	if !c.next.planned && len(p.Aborted) > 0 && !c.isRank {
		c.restAborted(p)
		return nil, nil
	}
	if !c.next.planned {
		return nil, c.stallError()
	}
	c.announcePass(p)
	if c.outbox.handsOver() {
		c.outbox.sendCached(c.next, now)
	}
	c.measurePass()
	if c.Overlap {
		c.planPass(c.after, p)
	}
	c.tellLoad(len(c.next.batch) > 0)
	return &c.step, nil
}

// openPass empties p for the pass that begins.
func (c *Core) openPass(now sim.Time, p *scheduler.Pass) {
	p.Reset(now)
	p.KVAtEnd = true
	if !c.next.planned && now > c.lastEnd && c.live == c.queue.waiting.Len() {
		c.ratio.now, c.queue.deferred = c.ratio.first, 0 // it was idle
	}
	for at, ok := c.outbox.nextArrival(); ok && at <= now; at, ok = c.outbox.nextArrival() {
		c.outbox.releaseArrived(at) // each when it comes, as nothing runs
	}
}

// End is the second half of Step: the pass that Begin planned ends at p.End.
func (c *Core) End(p *scheduler.Pass) error {
	if c.tiers != nil {
		c.tiers.endPass(p)
	}
	p.Gap = p.End - p.Start
	f := c.next
	c.next, c.after = c.after, f
	c.deliverPrompts(f, p)
	if f.decodes > 0 {
		c.deliverTokens(f, p)
	}
	c.leaveLine()
	c.outbox.releaseArrived(p.End)
	if c.tiers != nil {
		c.tiers.submitWrites(p.End, c.next.planned)
		c.tiers.tellTokens(p)
	}
	c.publishRecord(f, p)
	f.clear()
	c.lastEnd = p.End
	if c.drafts.left = 0; c.Speculation != nil && c.live == 0 && c.next.planned {
		c.drafts.left = p.End
	}
	c.describeState(p)
	c.check()
	return nil
}

// announcePass enters the requests that were admitted to the pass that begins.
func (c *Core) announcePass(p *scheduler.Pass) {
	for i := range c.next.batch {
		e := &c.next.batch[i]
		p.PrefillTokens += e.tokens
		if !e.isVoid() {
			p.Admitted = append(p.Admitted, scheduler.Admission{Request: e.ID, Again: e.resumed, Reused: e.hit, FromHost: e.hostHit})
		}
	}
	if c.tiers != nil {
		c.tiers.beginLoads(c.next, p.Start)
	}
	c.describeWork(p.Detail)
}

// measurePass adds up the work of the pass that begins. The prompts of a decode worker
// came over the network.
func (c *Core) measurePass() {
	f := c.next
	c.step = timing.Step{}
	s := &c.step
	n := f.decodes
	s.Tokens, s.Requests, s.Readers, s.Context = n, n, n, int64(f.length)
	if c.Speculation != nil {
		c.drafts.measureDrafts(s)
	}
	if len(f.batch) == 0 || c.Role == scheduler.Decode {
		s.Decodes, s.DecodeLength = n, f.length
		s.Active, s.Capacity, s.ByTokens = min(f.length, c.pages.pool), c.pages.pool, true
		return
	}
	// To a model that tells prompts from tokens all are prompts, some of a single token.
	s.Requests += len(f.batch)
	s.Chunks = len(f.batch)
	s.Prompts, s.PromptReached, s.PromptBefore = s.Requests, f.length, f.length-n
	for i := range f.batch {
		e := &f.batch[i]
		s.Tokens += e.tokens
		s.ChunkTokens += e.tokens
		s.PromptBefore += e.before
		s.PromptReached += e.before + e.tokens
		s.Pairs += float64(float64(e.tokens) * (float64(e.before) + float64(float64(e.tokens)/2)))
	}
}

// stallError returns the reason why nothing can run.
func (c *Core) stallError() error {
	if c.live == 0 {
		return &scheduler.StallError{Reason: "no request is left"}
	}
	r := c.partial
	if r == nil && c.queue.waiting.Len() > 0 {
		r = c.queue.waiting.Front()
	}
	if r == nil {
		r = c.batch.running[0]
	}
	return &scheduler.StallError{Request: r.ID, Reason: fmt.Sprintf(
		"nothing can run: input_length %d, output_length %d, %d tokens of the pool's %d are free and %d evictable",
		r.InputTokens, r.OutputTokens, c.pages.free, c.pages.pool, c.pages.evictableTokens())}
}

// SetClock sets the clock that times later passes.
func (c *Core) SetClock(clock timing.Clock) { c.Clock = clock }
