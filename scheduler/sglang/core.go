// Package sglang is the scheduler core of a simulated SGLang engine by SGLang's own rules, see docs/rules/sglang.md.
// Package reference implements the rules of the reference simulator, and package radix the cache of both.
//
// A decode pass gives each running request a token but does not update the requests. Decode passes are counted, and
// the tokens are added to a request when another event changes it.
//
// Layers with a window have a separate pool (windows.go), in addition to the pool of the other layers.
//
// Read config.go and rules.go, then core.go, request.go, batch.go, plan.go, admit.go, exact.go, clip.go, run.go,
// retract.go, deliver.go, drafts.go, cancel.go, queue.go, shortest.go, priority.go. Ranks in lockstep are in
// ranks.go, and prefill and decode workers in handover.go and decode.go. The cache is in pages.go and eviction.go,
// host memory in hicache.go, and storage behind it in storage.go and disk.go. Reports to routers are in record.go and
// pageevents.go, and reports to planners and observers in view.go.
package sglang

import (
	"fmt"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang/radix"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Core is the scheduler of one SGLang engine. Each of its parts has a separate task and state, and refers to the
// core.
type Core struct {
	scheduler.Base
	Config
	ratio ratio
	live  int // submitted requests that are not finished

	queue    queue   // waiting requests, see queue.go
	batch    batch   // running requests, see batch.go
	pages    pages   // the token pool and the prefix cache, see pages.go
	win      windows // the pool of layers with a window, see windows.go
	drafts   drafts  // speculative decoding, see drafts.go
	tiers    *tiers  // host memory behind the pool; nil: none
	decoding         // state of decode workers, see decode.go
	outbox   outbox  // state of prefill workers, see handover.go

	partial *request // partially prefilled request, which continues before any request is admitted
	parked  bool     // no tokens of partial were computed since its pages were added to the tree
	merging []visit  // the prompts of the latest pass, if it was a prefill
	mixed   bool     // the latest pass computed prompts and also decoded
	spare   []*request
	record  recorder

	next, after *flight // the next pass, and with Overlap the pass after it
	step        timing.Step
	lastEnd     sim.Time // end of the latest pass
	lastDecode  sim.Time // end of the latest decode pass
	stays       []stay
	before      counts             // state before the latest run of passes
	view        scheduler.Snapshot // data of the running pass for planners
	isRank      bool               // the core is one of several ranks
	board       *board             // load reports of this rank; nil: none
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

// Submit appends r to the queue.
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

// forgetRequest releases a request that has no memory any more.
func (c *Core) forgetRequest(r *request) {
	r.epoch++
	r.Request = nil
	c.spare = append(c.spare, r)
	c.live--
}

// Able returns the optional abilities of the core.
func (c *Core) Able() scheduler.Ability {
	able := scheduler.Shows | scheduler.Warms
	if !c.HiCache.Storage.On {
		able |= scheduler.Remembers
	}
	return able
}

// Nodes calls need with every prompt node that has cached pages on the device or in host memory, and with the nodes
// of unpublished changes.
func (c *Core) Nodes(need func(prompt.NodeID)) {
	c.pages.tree.Nodes(need)
	c.record.nodes(need)
}

// Load returns the number of submitted requests that are not finished.
func (c *Core) Load() int { return c.live }

// Line returns the numbers of waiting and running requests.
func (c *Core) Line() (waiting, running int) {
	waiting = c.queue.waiting.Len() + len(c.retracted) + len(c.arrived)
	return waiting, c.live - waiting
}

// Step runs the pass that starts at now, and the following passes if they only give a token to each running request.
// With Overlap, Step also plans the pass after it, with the state known at now.
func (c *Core) Step(now, until sim.Time, p *scheduler.Pass) error {
	if until > now {
		if n := c.countAlike(now); n > 1 {
			return c.takeRun(n, now, until, p)
		}
	}
	if c.decoding.receivesKV() {
		if alone, err := c.decoding.admitReceived(now, p); alone || err != nil {
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

// Begin is the first half of Step. Begin is used if the caller determines the duration of a pass, for example with
// several engines in lockstep. Begin plans the pass that starts at now and returns its work, which is valid until the
// next Begin. The caller sets p.End and then calls End. If Begin returns no work, the pass is complete: it has
// aborted requests, or waits for copies of host memory.
func (c *Core) Begin(now sim.Time, p *scheduler.Pass) (*timing.Step, error) {
	if !c.decoding.receivesKV() { // admitReceived has called openPass already
		c.openPass(now, p)
	}
	fresh := !c.next.planned
	for again := true; again && !c.next.planned; { // plan again if preemption emptied the engine, or if prompts were deferred although no request runs
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
	c.reportLoad(len(c.next.batch) > 0)
	return &c.step, nil
}

// openPass resets p for the pass that starts at now.
func (c *Core) openPass(now sim.Time, p *scheduler.Pass) {
	p.Reset(now)
	p.KVAtEnd = true
	if !c.next.planned && now > c.lastEnd && c.live == c.queue.waiting.Len() {
		c.ratio.now, c.queue.deferred = c.ratio.first, 0 // the engine was idle
	}
	for at, ok := c.outbox.nextArrival(); ok && at <= now; at, ok = c.outbox.nextArrival() {
		c.outbox.releaseArrived(at) // one by one, because no pass runs
	}
}

// End is the second half of Step: it ends the pass that Begin planned, at p.End.
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
		c.tiers.recordTransfers(p)
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

// announcePass records the requests admitted in the pass that begins.
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

// measurePass computes the work of the pass that begins. On a decode worker, the KV cache of prompts comes over the
// network and costs no work.
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
	// A model that times prompts and decodes separately counts all requests of this pass as prompts, some with a
	// single token.
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

// SetClock sets the clock of later passes.
func (c *Core) SetClock(clock timing.Clock) { c.Clock = clock }
