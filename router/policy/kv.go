package policy

import (
	"errors"
	"math"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
)

// kv chooses the worker with the lowest cost for a request: a worker with its prompt in the cache and little load.
type kv struct {
	config      router.Config // for the role of the workers
	blockTokens int64
	budget      int   // token budget of a pass
	budgets     []int // budget by worker; nil: all are equal
	draw        *draw // nil if the temperature is 0
}

// unlimitedTokens replaces an unlimited token budget.
const unlimitedTokens = 10_000_000

func newKV(o Options) (router.Policy, error) {
	p := &kv{config: o.Config.ForRole(o.work()), blockTokens: int64(o.BlockTokens), budget: o.MaxBatchedTokens, budgets: o.WorkerBatches}
	if p.config.PrefillLoadModel == router.LoadAIC {
		return nil, errors.New("router_prefill_load_model='aic' requires aic_perf_config")
	}
	if p.config.Temperature > 0 {
		p.draw = &draw{temperature: p.config.Temperature, rand: newRand(o)}
	}
	return p, nil
}

func (p *kv) Needs() router.Needs {
	c := &p.config
	n := router.Needs{
		Running: true, Overlap: true, Tokens: c.TrackPrefillTokens,
		Blocks: c.TrackActiveBlocks, Shared: c.TrackActiveBlocks && c.AssumeKVReuse, Sparse: p.draw == nil,
	}
	if c.QueueThreshold != nil {
		n.Hold = &router.Hold{Tokens: p.holdBeyond(p.budget), Order: c.QueuePolicy}
		for _, budget := range p.budgets {
			n.Hold.ByWorker = append(n.Hold.ByWorker, p.holdBeyond(budget))
		}
	}
	return n
}

// holdBeyond returns the number of prompt tokens above which a worker with the given budget is busy.
func (p *kv) holdBeyond(budget int) float64 {
	if budget == 0 {
		budget = unlimitedTokens
	}
	return float64(*p.config.QueueThreshold * float64(budget))
}

func (p *kv) Choose(q *sim.Request, c *router.Candidates) router.Choice {
	j := job{tokens: int64(q.InputTokens)}
	if p.config.TrackActiveBlocks {
		j.blocks = int64(q.Prompt.Blocks)
	}
	if p.draw == nil {
		return p.findCheapest(j, c)
	}
	costs := p.draw.costs[:0]
	for _, w := range c.Workers {
		costs = append(costs, p.costOn(j, stateOf(w, c)))
	}
	p.draw.costs = costs
	return p.draw.chooseWorker(c.Workers)
}

// job is a request for the cost function.
type job struct {
	tokens int64 // prompt length
	blocks int64 // full prompt blocks, 0 if active blocks are not counted
}

// state is the state of a worker for the cost of a job.
type state struct {
	tokens  int64 // prompt tokens to compute
	blocks  int64 // active blocks
	overlap int32 // cached blocks of the job
	active  int32 // active blocks of the job
}

func stateOf(w sim.WorkerID, c *router.Candidates) state {
	return state{tokens: c.Tokens[w], blocks: c.Blocks[w], overlap: c.Overlap[w], active: c.Active[w]}
}

// costOn returns the cost of a job on a worker, in blocks. The cost is the prompt tokens that the worker would
// compute, minus a credit for cached tokens, plus the blocks that its requests would hold.
func (p *kv) costOn(j job, x state) float64 {
	cached := int64(x.overlap) * p.blockTokens
	raw := x.tokens + max(j.tokens-cached, 0) + cached
	if !p.config.TrackPrefillTokens {
		raw = 0
	}
	adjusted := float64(raw)/float64(p.blockTokens) - float64(p.config.OverlapScoreCredit*float64(x.overlap))
	if adjusted < 0 {
		adjusted = 0
	}
	active := x.blocks + j.blocks - int64(x.active)
	return float64(p.config.PrefillLoadScale*adjusted) + float64(active)
}

// findCheapest returns the candidate with the lowest cost, the first among equals. In a large cluster most workers
// are idle or equal, so that it computes few costs.
func (p *kv) findCheapest(j job, c *router.Candidates) router.Choice {
	if _, _, by := c.Sparse(); by != nil {
		return p.findSparsely(j, c)
	}
	held := stateOf(c.Workers[0], c)
	s := search{
		best: router.Choice{Worker: c.Workers[0], Cost: p.costOn(j, held), Second: router.None},
		held: held, beyond: state{tokens: math.MaxInt64},
	}
	p.searchAmong(c.Workers[1:], j, c, &s)
	return s.best
}

// search is the state of a search for the candidate with the lowest cost.
type search struct {
	best   router.Choice
	held   state // the state of best.Worker
	beyond state // a state with a cost of best.SecondCost or more
}

// searchAmong continues a search with more workers.
func (p *kv) searchAmong(rest []sim.WorkerID, j job, c *router.Candidates, s *search) {
	for ; ; rest = rest[1:] {
		rest = skipBeyond(rest, c, &s.beyond)
		if len(rest) == 0 {
			return
		}
		w := rest[0]
		x := stateOf(w, c)
		dear := x
		switch cost := p.costOn(j, x); {
		case cost < s.best.Cost:
			s.best = router.Choice{Worker: w, Cost: cost, Second: s.best.Worker, SecondCost: s.best.Cost}
			dear, s.held = s.held, x
		case s.best.Second == router.None || cost < s.best.SecondCost:
			s.best.Second, s.best.SecondCost = w, cost
		}
		if int64(dear.overlap)*p.blockTokens <= j.tokens { // otherwise more overlap may cost more
			s.beyond = dear
		}
	}
}

// skipBeyond returns the workers from the first one with a possibly lower cost than state b. A worker does not have a
// lower cost if it has at least as many tokens and blocks, and at most as many cached and active blocks of the job.
func skipBeyond(workers []sim.WorkerID, c *router.Candidates, b *state) []sim.WorkerID {
	tokens := c.Tokens
	n := len(tokens) // the same length for all slices avoids bounds checks
	blocks, overlap, active := c.Blocks[:n], c.Overlap[:n], c.Active[:n]
	x := *b
	for i, w := range workers {
		if tokens[w] < x.tokens || blocks[w] < x.blocks || overlap[w] > x.overlap || active[w] > x.active {
			return workers[i:]
		}
	}
	return nil
}
