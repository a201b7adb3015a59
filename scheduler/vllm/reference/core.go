// Package reference is the scheduler core of a simulated vLLM engine by the rules of the reference simulator
// (docs/rules/vllm.md). The reference's rules are the default, and the rules of --compat: chunked prefill, a prefix
// cache with lineage eviction, preemption, and one token per running request and pass. The rules of vLLM itself are
// in the package vllm above it.
//
// A request that only decodes is steady: passes do not visit it, and its length is a base plus the number of passes
// since. A steady request wakes when it opens a block or ends. All other running requests are irregular and follow
// the rules literally.
//
// Read request.go, core.go, plan.go, emit.go, preempt.go, then device.go with nodes.go and lru.go for the KV blocks,
// and capture.go. For KV blocks with host memory read tiered.go and fetch.go.
package reference

import (
	"math/bits"

	"github.com/replay-llm/replay/internal/heap"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/sim"
)

// Core is the scheduler of one vLLM engine.
type Core struct {
	scheduler.Base
	cfg   vllm.Config
	shift uint // BlockTokens = 1 << shift

	requests []request
	unused   []slot
	live     int
	waiting  queue
	running  queue
	pool     pool
	supply   supply // numbers of blocks in the pool

	// Steady requests get one token in every pass; step counts the passes.
	step      int64
	steady    int
	steadyLen int64 // sum of length - base over steady requests
	irregular int   // number of running requests that are not steady
	// wakes contains steady requests by the step in which they open a block or end. Entries of requests that are not
	// steady any more are skipped when they become due.
	wakes    heap.Keys[wake]
	fresh    []slot   // requests that got their first token in the latest pass
	admitted uint64   // number of admissions so far, which orders running requests
	passes   int64    // number of passes so far
	lastEnd  sim.Time // end of the latest pass
	// blocked tells that the first waiting request cannot be admitted until an event other than steady decoding.
	blocked bool
	barren  int // number of consecutive passes without a token or progress of a prompt

	pass    planned
	ready   []slot
	notes   []entry // recorded if isNoting
	capture capture

	decodeActive int     // number of held KV blocks for which decodeMS was computed
	decodeMS     float64 // duration of a decode part in ms
}

// New returns an idle engine. Requests for which Config.Fits returns an error must not be submitted: they would
// occupy blocks and never end.
func New(cfg vllm.Config) *Core {
	c := &Core{
		cfg:          cfg,
		shift:        uint(bits.TrailingZeros(uint(cfg.BlockTokens))),
		decodeActive: -1,
	}
	c.waiting, c.running = newQueue(waitingQueue), newQueue(runningQueue)
	c.supply = supply{blocks: cfg.Blocks, free: cfg.Blocks}
	c.capture.init(&c.cfg)
	if cfg.Offload.Given() {
		c.pool = newTiered(c)
	} else {
		c.pool = newDevice(c)
	}
	return c
}

// Able returns the optional abilities of the core.
func (c *Core) Able() scheduler.Ability {
	if _, ok := c.pool.(*device); !ok {
		return scheduler.Shows // Nodes does not know the blocks in host memory
	}
	return scheduler.Remembers | scheduler.Shows
}

// Load returns the number of requests that were submitted and have not ended.
func (c *Core) Load() int { return c.live }

// Submit appends r to the queue. Config.Fits must return nil for r.
func (c *Core) Submit(r *sim.Request) {
	s := c.takeSlot()
	q := &c.requests[s]
	q.init(r, &c.cfg)
	if c.waiting.len == 0 {
		c.blocked = false
	}
	c.pushBack(&c.waiting, s)
	c.live++
	c.capture.addRequest(r)
}

// Step runs the pass that starts at now, or a run of passes in which only steady requests decode.
func (c *Core) Step(now, until sim.Time, p *scheduler.Pass) error {
	p.Reset(now)
	if n := c.countUneventful(); n > 0 {
		return c.decodeRun(now, until, n, p)
	}
	return c.runPass(now, p)
}

// countUneventful returns the number of coming passes in which every steady request gets a token and nothing else
// happens.
func (c *Core) countUneventful() int {
	if c.cfg.Planner || c.pool.Busy() {
		return 0
	}
	if c.steady == 0 || c.irregular > 0 || c.cfg.Role == scheduler.Prefill || c.steady > c.cfg.Budget() {
		return 0
	}
	if c.waiting.len > 0 && !c.cfg.IsFull(c.running.len) && !c.blocked {
		return 0
	}
	return int(c.nextWake() - c.step)
}

// decodeRun runs up to n uneventful passes.
func (c *Core) decodeRun(now, until sim.Time, n int, p *scheduler.Pass) error {
	d, err := c.decodeTime(c.steady, c.steadyLen+int64(c.steady)*c.step)
	if err != nil {
		return err
	}
	if c.cfg.Clock.Model.ByContext() {
		n = 1
	}
	p.Count, p.End, p.Gap = scheduler.Repeat(now, sim.Time(d), n, until)
	p.Decoding, p.Tokens = c.steady, c.steady
	for _, s := range c.fresh {
		p.Second = append(p.Second, c.requests[s].id)
	}
	c.fresh = c.fresh[:0]
	c.step += int64(p.Count)
	c.passes += int64(p.Count)
	c.lastEnd, c.barren = p.End, 0
	c.notes = c.notes[:0]
	c.fillDetail(p, now)
	return nil
}

// Cut undoes the passes of run p after the first keep passes.
func (c *Core) Cut(p *scheduler.Pass, keep int) {
	back := int64(p.Count - keep)
	c.step -= back
	c.passes -= back
	p.Count, p.End = keep, p.Start+sim.Time(float64(keep)*float64(p.Gap))
	c.lastEnd = p.End
}

// decodeTime returns the duration in ms of a decode part for n requests with a total of length tokens.
func (c *Core) decodeTime(n int, length int64) (float64, error) {
	clock := &c.cfg.Clock
	active := c.supply.active()
	if active == c.decodeActive && !clock.Model.ByContext() {
		return c.decodeMS, nil
	}
	ms, err := clock.Decode(n, active<<c.shift, int(length)/n, c.cfg.Blocks<<c.shift)
	if err != nil {
		return 0, err
	}
	c.decodeActive, c.decodeMS = active, ms
	return ms, nil
}

// SetClock sets the clock for the durations of later passes.
func (c *Core) SetClock(clock timing.Clock) { c.cfg.Clock, c.decodeActive = clock, -1 }
