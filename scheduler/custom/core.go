package custom

import (
	"fmt"
	"slices"
	"strings"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Config is the configuration of a Core.
type Config struct {
	Options
	Clock timing.Clock // durations of passes
	Tree  *prompt.Tree // prefix tree of the requests' prompts, with blocks of BlockTokens
	Told  bool         // passes report the changes of the cache to the router
}

// Core runs an Engine, one pass at a time, and keeps all records. Core is a scheduler.Core.
type Core struct {
	scheduler.Base
	cfg     Config
	engine  Engine
	pool    pool
	byID    map[sim.RequestID]*request
	running []*request // running requests in order of admission
	waiting scheduler.Line[*request]
	plan    Plan
	step    timing.Step // work of the latest pass
	arrived int32       // number of submitted requests
	passes  int64       // number of passes run
	plans   int64       // number of passes begun
	further bool        // some request of the running pass has more tokens computed than ever before
	barren  int         // consecutive passes without a token and without a request with further set
	out     *scheduler.Pass
}

// request is the core's private record of a request. An engine that writes to its Request does not change this
// record.
type request struct {
	Request
	id                             sim.RequestID
	input, output, given, computed int

	number   int32 // number of the submission, used to name blocks that only this request can find
	path     []prompt.NodeID
	shared   int       // full blocks of the prompt that can be shared
	held     []blockID // blocks of the list in order; lookups can find the first named blocks
	named    int
	runs     bool
	planned  int64 // the latest plan with tokens for this request
	lost     int64 // the latest plan that preempted this request
	times    int   // number of preemptions
	furthest int   // maximum number of tokens computed, including before preemptions

	pass   int64    // pass of the latest token; -1 before the first
	lastAt sim.Time // end of that pass
}

// known returns the number of tokens of r with known values.
func (r *request) known() int { return r.input + r.given }

// show updates the fields of Request that the engine sees.
func (r *request) show() {
	r.Generated, r.Computed, r.Blocks, r.Preempted = r.given, r.computed, len(r.held), r.times
}

// New returns an idle worker that runs the given engine.
func New(cfg Config, engine Engine) *Core {
	c := &Core{cfg: cfg, engine: engine, byID: make(map[sim.RequestID]*request)}
	c.pool = newPool(c)
	return c
}

// Fits returns the reason why an idle worker cannot run a request of the given lengths to its end, or nil if it can.
func (c *Config) Fits(input, output int) *scheduler.OversizeError {
	if output < 1 {
		return &scheduler.OversizeError{Input: input, Output: output, Reason: "an answer of 0 tokens never ends, expected output_length > 0"}
	}
	if need := (input + output - 1 + c.BlockTokens - 1) / c.BlockTokens; need > c.Blocks {
		return &scheduler.OversizeError{Input: input, Output: output, Blocks: need, Reason: fmt.Sprintf(
			"it needs %d KV blocks of %d tokens, must be at most num_gpu_blocks %d", need, c.BlockTokens, c.Blocks)}
	}
	return nil
}

// Able returns Remembers: the core can list its cached prompt nodes.
func (c *Core) Able() scheduler.Ability { return scheduler.Remembers }

// Load returns the number of submitted requests that are not finished.
func (c *Core) Load() int { return len(c.byID) }

// Submit appends q to the waiting requests.
func (c *Core) Submit(q *sim.Request) {
	r := &request{
		Request: Request{
			ID: q.ID, Class: q.Class, Priority: q.Priority, Session: q.Session, Turn: q.Turn,
			Arrived: q.Arrived, Input: q.InputTokens, Output: q.OutputTokens,
		},
		id: q.ID, input: q.InputTokens, output: q.OutputTokens, number: c.arrived, pass: -1,
	}
	if c.cfg.PrefixCaching && !q.Prompt.Unique() {
		r.path, r.shared = c.cfg.Tree.Full(&q.Prompt), int(q.Prompt.Blocks)
	}
	c.arrived++
	c.byID[q.ID] = r
	c.waiting.PushBack(r)
}

// Step calls the engine's Plan for the pass that starts at now, and runs the pass.
func (c *Core) Step(now, _ sim.Time, p *scheduler.Pass) error {
	p.Reset(now)
	c.out, c.further = p, false
	c.plans++
	c.plan.open(c, now)
	c.engine.Plan(&c.plan)
	c.plan.over = true
	switch x := &c.plan; {
	case x.err != nil:
		return x.err
	case len(x.shares) > 0 && x.wait > 0:
		return &PlanError{Request: -1, Reason: "to wait in a pass that computes tokens: the two are mutually exclusive"}
	case x.wait > 0:
		p.End, p.Waits = x.wait, true
	case len(x.shares) == 0:
		return c.stallError("the engine has planned nothing, and waits for nothing")
	default:
		if err := c.setEnd(p); err != nil {
			return err
		}
	}
	p.Gap = p.End - p.Start
	c.deliverTokens(p)
	c.passes++
	c.describePass(p)
	c.checkBlocks()
	return c.checkProgress(p)
}

// Cut has nothing to release: a Core runs one pass at a time.
func (c *Core) Cut(*scheduler.Pass, int) {}

// giveTokens adds a share to the planned pass. giveTokens admits a waiting request with its first hits blocks, which
// are cached.
func (c *Core) giveTokens(r *request, x share, hits int) {
	if !r.runs {
		c.waiting.Remove(r)
		c.running = append(c.running, r)
		r.runs = true
		c.pool.holdHits(r, hits)
		c.out.Admitted = append(c.out.Admitted, scheduler.Admission{Request: r.id, Again: r.times > 0, Reused: min(x.before, r.input)})
	}
	r.planned, r.computed = c.plans, x.before+x.tokens
	c.pool.cover(r)
	if !x.samples && r.computed > r.furthest {
		r.furthest, c.further = r.computed, true
	}
	c.plan.shares = append(c.plan.shares, x)
	r.show()
}

// preempt preempts r.
func (c *Core) preempt(r *request) {
	c.running = slices.DeleteFunc(c.running, func(x *request) bool { return x == r })
	c.pool.release(r)
	r.runs, r.computed, r.lost = false, 0, c.plans
	r.times++
	c.waiting.PushFront(r)
	c.out.Preempted++
	if d := c.out.Detail; d != nil {
		d.Lost = append(d.Lost, r.id)
	}
	r.show()
}

// barrenLimit is the number of consecutive passes without progress that counts as a stall.
const barrenLimit = 100_000

// checkProgress returns a StallError if the engine has made no progress for barrenLimit passes.
func (c *Core) checkProgress(p *scheduler.Pass) error {
	if p.Tokens > 0 || c.further {
		c.barren = 0
		return nil
	}
	if c.barren++; c.barren < barrenLimit || c.Load() == 0 {
		return nil
	}
	return c.stallError(fmt.Sprintf("%d passes in a row without a token, or a request that is further than before", c.barren))
}

// mostNamed is the maximum number of requests that an error names.
const mostNamed = 8

// stallError returns an error that names the requests without progress.
func (c *Core) stallError(what string) error {
	all := append(slices.Clone(c.running), c.waiting.All()...)
	var names []string
	for _, r := range all[:min(len(all), mostNamed)] {
		names = append(names, fmt.Sprint(r.id))
	}
	if more := len(all) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return &scheduler.StallError{Request: all[0].id, Reason: fmt.Sprintf("%s: %d running and %d waiting (requests %s), %d of %d KV blocks free",
		what, len(c.running), c.waiting.Len(), strings.Join(names, ", "), c.pool.free, c.cfg.Blocks)}
}

// Cancel removes a request, waiting or running.
func (c *Core) Cancel(now sim.Time, id sim.RequestID, p *scheduler.Pass) bool {
	p.Reset(now)
	r := c.byID[id]
	if r == nil {
		return false
	}
	c.out = p
	if r.runs {
		c.running = slices.DeleteFunc(c.running, func(x *request) bool { return x == r })
	} else {
		c.waiting.Remove(r)
	}
	c.plan.shares = c.plan.shares[:0]
	c.finish(r)
	c.checkBlocks()
	c.describePass(p)
	return true
}

// finish removes a request that neither waits nor runs, and releases its blocks.
func (c *Core) finish(r *request) {
	c.pool.release(r)
	delete(c.byID, r.id)
	r.runs = false
}

// Progress yields the requests that have gained a token but not their last.
func (c *Core) Progress(yield func(id sim.RequestID, tokens int, last sim.Time)) {
	for _, all := range [][]*request{c.running, c.waiting.All()} {
		for _, r := range all {
			if r.given > 0 {
				yield(r.id, r.given, r.lastAt)
			}
		}
	}
}

// SetClock sets the clock of later passes.
func (c *Core) SetClock(clock timing.Clock) { c.cfg.Clock = clock }
