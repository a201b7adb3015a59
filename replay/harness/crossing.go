package harness

import (
	"math"

	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/sim"
)

// Chooser decides where the prompt of a request with a decode worker is computed: on a prefill worker or on the
// decode worker.
type Chooser struct {
	pools    []*Pool
	rule     *policy.PrefillRule // nil: decided by a threshold or by estimates
	crossing policy.Crossing
	block    int // tokens per block
}

// NewChooser returns the chooser for the pools of a run, nil if every prompt takes the same path.
func (r *Run) NewChooser(pools []*Pool) (*Chooser, error) {
	if !r.PD.Chooses() {
		return nil, nil
	}
	c := &Chooser{pools: pools, block: r.Use.Tree.BlockTokens()}
	if r.PD.When == "" {
		return c, nil
	}
	var err error
	c.rule, err = policy.NewPrefillRule(r.PD.When)
	return c, err
}

// ChoosePool returns the pool that computes the prompt of a request with a new decode worker. inTransfer is the
// number of transfers in flight. Without prefill workers, the result is the decode pool.
func (c *Chooser) ChoosePool(now sim.Time, placed *router.Placement, inTransfer int) *Pool {
	prefill, decode := c.pools[0], c.pools[1]
	q := placed.Request
	x := &c.crossing
	*x = policy.Crossing{
		Request: q, Cached: min(int(placed.Believed)*c.block, q.InputTokens),
		Prefill: prefill.Router.Loads(), Decode: decode.Router.Loads(),
		QueuedPrefill: prefill.Router.Queued(), QueuedDecode: decode.Router.Queued(),
		InTransfer: inTransfer, Now: now,
	}
	if len(x.Prefill.Workers) > 0 && c.goesToPrefill(x, placed.Worker) {
		return prefill
	}
	return decode
}

// goesToPrefill decides by the settings of the run.
func (c *Chooser) goesToPrefill(x *policy.Crossing, w sim.WorkerID) bool {
	pd := c.pools[0].Run.PD
	switch {
	case c.rule != nil:
		return c.rule.GoesToPrefill(x)
	case pd.Threshold != nil:
		return x.Request.InputTokens-x.Cached > *pd.Threshold
	}
	return c.estimateByPrefill(x, w) < c.estimateByDecode(x, w)
}

// estimateByPrefill returns the estimated time to the first token through a prefill worker. The estimate is the time
// for the waiting prompts of the least loaded prefill worker, this prompt, its transfer, and a pass of the decode
// worker. The link counts as free.
func (c *Chooser) estimateByPrefill(x *policy.Crossing, w sim.WorkerID) sim.Time {
	least := int64(math.MaxInt64)
	for _, p := range x.Prefill.Workers {
		least = min(least, x.Prefill.Tokens[p])
	}
	n := x.Request.InputTokens
	prefill := c.pools[0].Estimate(engines.Estimated{Waiting: int(least), Own: n})
	decode := c.pools[1].Estimate(engines.Estimated{Decodes: int(x.Decode.Running[w]), Context: int(x.Decode.Blocks[w]) * c.block})
	return prefill + c.pools[0].Engine.Transfer().Delay(n) + decode
}

// estimateByDecode returns the estimated time to the first token on the decode worker. The result is the time for the
// prompts that wait on that worker, then for the uncached tokens of this prompt, together with decodes. The loads
// already include the request.
func (c *Chooser) estimateByDecode(x *policy.Crossing, w sim.WorkerID) sim.Time {
	own := x.Request.InputTokens - x.Cached
	return c.pools[1].Estimate(engines.Estimated{
		Waiting: max(int(x.Decode.Tokens[w])-own, 0), Own: max(own, 1), Cached: x.Cached,
		Decodes: int(x.Decode.Running[w]) - 1, Context: max(int(x.Decode.Blocks[w])*c.block-x.Request.InputTokens, 0),
	})
}
