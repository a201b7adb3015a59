// Package reference is the scheduler core of a simulated SGLang engine by the rules of the reference simulator, see
// docs/rules/sglang.md. A pass in which running requests only gain a token does not update them. Passes without an
// update are counted, and the tokens are added to a request when another event changes it.
//
// Read core.go, request.go, prefill.go, decode.go, retract.go, cancel.go and policy.go. Package radix is the cache,
// and record.go and ledger.go report its changes to a router. snapshot.go is for planners and observers.
package reference

import (
	"fmt"

	"github.com/replay-llm/replay/internal/heap"
	"github.com/replay-llm/replay/internal/invariant"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang"
	"github.com/replay-llm/replay/scheduler/sglang/radix"
	"github.com/replay-llm/replay/sim"
)

// Core is the scheduler of one simulated SGLang engine. Core implements scheduler.Core.
type Core struct {
	scheduler.Base
	sglang.Config
	pool  int // size of the pool in tokens
	ratio ratio

	waiting scheduler.Line[*request]
	running []*request // each request stores its index, which breaks ties
	totals  totals
	step    int64 // number of decode steps
	// agenda contains running requests by the decode step of their next event other than a token. Tie is the epoch.
	agenda heap.Heap[int64, int32, *request]
	due    []*request // requests with an event in this step
	spare  []*request

	free      int // free tokens in the pool; only a count, because slots can be freed twice
	tree      *radix.Tree
	record    recorder
	tokenwise bool // record needs each generated token

	batch   []chunk
	joined  []*request // requests that started to run in this pass
	fresh   []*request // requests that gained their first token in the last pass
	retired []*request // requests retracted in this pass
	starved bool       // requests run, but gained no token in the last pass
	lastEnd sim.Time   // end of the last pass with tokens
	sorted  sorted
	view    scheduler.Snapshot // data of the running pass for planners
}

// totals are sums over the running requests.
type totals struct {
	length  int     // total length in tokens
	slack   int     // free tokens in the last pages of running requests
	reserve int     // remaining output tokens, limited to ClipNewTokens per request
	clipped int     // number of requests with more remaining output than ClipNewTokens
	phase   []int32 // number of requests by the decode step, modulo the page size, that needs a new page for their next token
}

// ratio is the estimated share of the reserved output tokens that will be needed.
type ratio struct{ now, first, least, step float64 }

// New returns an idle core.
func New(c sglang.Config) (*Core, error) {
	if err := checkConfig(c); err != nil {
		return nil, err
	}
	core := &Core{Config: c, pool: c.Pages * c.PageTokens, tree: radix.New(c.Tree.PerNode())}
	core.ratio = newRatio(c.Conservativeness)
	core.free = core.pool
	core.totals.phase = make([]int32, c.PageTokens)
	return core, core.startRecord()
}

func newRatio(conservativeness float64) ratio {
	var r ratio
	r.first = float64(0.7 * conservativeness)
	r.least = float64(r.first * 0.14)
	r.step = float64(r.first-r.least) / 600.0
	r.now = r.first
	return r
}

func (r *ratio) decay() { r.now = max(r.now-r.step, r.least) }

// Submit appends r to the queue.
func (c *Core) Submit(r *sim.Request) {
	q := c.newRequest()
	*q = request{Request: r, seq: radix.NewSequence(r), maxOut: r.OutputTokens, epoch: q.epoch, place: notRunning}
	if c.Role == scheduler.Prefill {
		q.maxOut = 1
	}
	c.waiting.PushBack(q)
	c.sorted.valid = false
}

func (c *Core) newRequest() *request {
	if last := len(c.spare) - 1; last >= 0 {
		r := c.spare[last]
		c.spare = c.spare[:last]
		return r
	}
	return new(request)
}

// Able returns the optional abilities of the core.
func (c *Core) Able() scheduler.Ability {
	return scheduler.Shows
}

// Load returns the number of submitted requests that are not finished.
func (c *Core) Load() int { return c.waiting.Len() + len(c.running) }

// Cut does nothing except check keep, because each run is a single pass.
func (c *Core) Cut(p *scheduler.Pass, keep int) {
	if keep < 1 || keep > p.Count {
		panic(fmt.Sprintf("cut of a run of %d passes after pass %d", p.Count, keep))
	}
}

// Step runs the pass that starts at now.
func (c *Core) Step(now, _ sim.Time, p *scheduler.Pass) error {
	if c.step >= maxSteps || len(c.running) > maxPlaces-c.waiting.Len() {
		return fmt.Errorf("the engine has taken %d decode steps with %d requests now, must have fewer than 2^31 and up to 2^28",
			c.step, c.Load())
	}
	p.Reset(now)
	p.KVAtEnd = true
	c.record.begin(p)
	c.sortQueue()
	c.fillBatch(p)
	prefill, err := c.prefillTime()
	if err != nil {
		return err
	}
	c.runBatch()
	c.keepView()
	decode, err := c.decodeTime()
	if err != nil {
		return err
	}
	p.End = now + sim.Time(prefill) + sim.Time(decode)
	p.Gap = p.End - now
	c.describeBatch(p.Detail)
	c.retractVictims(p)
	c.decodeTokens(p)
	c.requeueRetired()
	c.check()
	c.describeState(p, now+sim.Time(prefill))
	if len(p.Admitted) == 0 && p.Tokens == 0 && p.Preempted == 0 {
		return c.describeStall()
	}
	return nil
}

// describeStall returns the reason why nothing can run.
func (c *Core) describeStall() error {
	pool := fmt.Sprintf("%d free, %d evictable, pool of %d", c.free, c.evictableTokens(), c.pool)
	if c.waiting.Len() == 0 {
		r := c.running[0]
		return &scheduler.StallError{Request: r.ID, Reason: fmt.Sprintf(
			"input_length %d, output_length %d: runs alone, holds %d tokens and has outgrown the pool (%s)",
			r.InputTokens, r.OutputTokens, c.lengthOf(r), pool)}
	}
	head := c.waiting.Front()
	need, mem := c.neededTokens(head, head.length()-head.stored), c.openBudget().mem
	why := fmt.Sprintf("needs %d tokens, must be less than %v (%s)", need, mem, pool)
	if float64(need) < mem {
		why = fmt.Sprintf("no chunk of it is within max_prefill_tokens %d and chunked_prefill_size %d (needs %d tokens of %v; %s)",
			c.MaxPrefillTokens, c.ChunkTokens, need, mem, pool)
	}
	return &scheduler.StallError{Request: head.ID, Reason: fmt.Sprintf(
		"input_length %d, output_length %d: %s", head.InputTokens, head.OutputTokens, why)}
}

// evictableTokens returns the number of tokens that count as evictable.
func (c *Core) evictableTokens() int { return c.tree.LeafPages * c.PageTokens }

// evictTokens frees at least n tokens, or all that can be evicted.
func (c *Core) evictTokens(n int) {
	if n > 0 {
		c.free += c.tree.Evict((n+c.PageTokens-1)/c.PageTokens) * c.PageTokens
		c.record.evicted()
	}
}

// pagesOf returns the number of whole pages in n tokens.
func (c *Core) pagesOf(n int) int32 { return int32(n / c.PageTokens) }

// tokensSince returns the number of tokens that a running request has gained since base.
func (c *Core) tokensSince(r *request) int { return int(c.step - r.base) }

// lengthOf returns the number of prompt and output tokens of a running request.
func (c *Core) lengthOf(r *request) int { return r.stored + c.tokensSince(r) }

// writeGains adds to the running request r the tokens that it gained since base.
func (c *Core) writeGains(r *request) {
	n := c.tokensSince(r)
	r.out += n
	r.stored += n
	r.base = c.step
}

// check panics if the counters of the core do not agree, if invariants are enabled.
func (c *Core) check() {
	if !invariant.Enabled {
		return
	}
	c.checkTotals()
	c.tree.Check()
}
