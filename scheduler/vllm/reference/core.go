// Package reference is the scheduler core of a simulated vLLM engine by the
// rules of the reference simulator (docs/rules/vllm.md), which are the default
// and those of --compat: chunked prefill, a prefix cache with lineage eviction,
// preemption, and one token per running request and pass. vLLM's own rules are
// those of the package vllm above it.
//
// A request that merely decodes is not touched pass by pass: it is steady, its
// length a base plus the passes since, and it wakes when it opens a block or
// ends. Everything else is irregular and goes by the letter of the rules.
//
// Read request.go, core.go, plan.go, emit.go, preempt.go, then device.go with
// nodes.go and lru.go for the KV blocks, and capture.go. For KV blocks with
// host memory behind them read tiered.go and fetch.go.
package reference

import (
	"math/bits"

	"github.com/replay-llm/replay/internal/heap"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/sim"
)

// Core is one vLLM engine's scheduler.
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
	supply   supply // of the pool's blocks

	// Steady requests gain one token in every pass, step counts the passes.
	step      int64
	steady    int
	steadyLen int64 // Σ (length - base) over steady requests
	irregular int   // running requests that are not steady
	// wakes has steady requests by the step in which they open a block or end.
	// Entries of requests that are no longer steady stay until they come up and
	// are passed over then.
	wakes    heap.Keys[wake]
	fresh    []slot   // gained their first token in the last pass
	admitted uint64   // admissions so far: the order of running
	passes   int64    // passes so far
	lastEnd  sim.Time // end of the last pass
	// blocked is whether the head of the line cannot be admitted while
	// nothing but steady decoding happens.
	blocked bool
	barren  int // passes in a row without a token or a prompt further on

	pass    planned
	ready   []slot
	notes   []entry // see isNoting
	capture capture

	decodeActive int     // KV blocks in use that decodeMS was computed for
	decodeMS     float64 // duration of a decode part
}

// New returns an idle engine. Requests that Config.Fits refuses must not reach
// it: they take what blocks there are and never end.
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

// Able returns what the core can do apart from running passes.
func (c *Core) Able() scheduler.Ability {
	if _, ok := c.pool.(*device); !ok {
		return scheduler.Shows // what is in host memory is not known to Nodes
	}
	return scheduler.Remembers | scheduler.Shows
}

// Load returns the number of requests submitted and not finished.
func (c *Core) Load() int { return c.live }

// Submit queues r, which Config.Fits, at the end.
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

// Step runs the pass that starts at now, or a run of passes in which steady
// requests decode and nothing else happens.
func (c *Core) Step(now, until sim.Time, p *scheduler.Pass) error {
	p.Reset(now)
	if n := c.countUneventful(); n > 0 {
		return c.decodeRun(now, until, n, p)
	}
	return c.runPass(now, p)
}

// countUneventful returns the number of passes to come in which nothing happens
// but one more token for every steady request.
func (c *Core) countUneventful() int {
	if c.cfg.Planner || c.pool.Busy() {
		return 0
	}
	if c.steady == 0 || c.irregular > 0 || c.cfg.Role == scheduler.Prefill || c.steady > c.cfg.Budget() {
		return 0
	}
	if c.waiting.len > 0 && !c.cfg.Crowded(c.running.len) && !c.blocked {
		return 0
	}
	return int(c.nextWake() - c.step)
}

// decodeRun takes up to n uneventful passes.
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

// Cut releases the passes of the run p after the first keep.
func (c *Core) Cut(p *scheduler.Pass, keep int) {
	back := int64(p.Count - keep)
	c.step -= back
	c.passes -= back
	p.Count, p.End = keep, p.Start+sim.Time(float64(keep)*float64(p.Gap))
	c.lastEnd = p.End
}

// decodeTime returns the duration in ms of a decode part for n requests of
// length tokens in all.
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

// SetClock sets the clock that times later passes.
func (c *Core) SetClock(clock timing.Clock) { c.cfg.Clock, c.decodeActive = clock, -1 }
