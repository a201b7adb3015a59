package router

import (
	"fmt"
	"math/rand/v2"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// KV places requests where their prompts are cached and little work waits.
type KV struct {
	config      Config // as the stage uses it
	tree        *prompt.Tree
	blockTokens int64
	limit       float64 // a worker with more prompt tokens to compute is busy
	estimator   Estimator
	rand        *rand.Rand // nil at temperature 0

	workers  workers
	busy     int // registered workers above limit; without an estimator only
	index    index
	loads    *loads
	prefills prefills
	queue    queue

	records []record
	vacant  []int32 // records to use again
	record  []int32 // by request: 1 + its record; 0 unknown, isHeld while queued

	// What is known of the request in hand, by worker, and the costs of the
	// candidates, in the order of workers.ids.
	overlap, depth scores
	costs, odds    []float64
}

const isHeld = -1

var _ Router = (*KV)(nil)

// index knows which blocks are cached where.
type index interface {
	observe(w sim.WorkerID, p *scheduler.Pass) error
	match(q *prompt.Prompt, s *scores)
	grow(workers int)
	counts() IndexerCounts
}

// Options says what a KV router is for.
type Options struct {
	Config  Config
	Stage   Stage
	Workers int          // ids 0 to Workers-1 are registered from the start
	Tree    *prompt.Tree // of the prompts to route, cut by the engines' blocks
	// MaxBatchedTokens is the token budget of a pass of an engine; 0 is no bound,
	// which counts as 10,000,000 where held requests are concerned.
	MaxBatchedTokens int
	// Exact follows Pass.Events in a full block index. Otherwise Pass.KV is
	// followed, which is faster and the same for engines that never cache a block
	// without its parent.
	Exact bool
	// Estimator predicts prefills; nil where none is configured.
	Estimator Estimator
	// Requests is how many requests may come, to make room for them at once; 0
	// where it is unknown.
	Requests int
	// Seed is for the draws at a temperature above 0; 0 is 42.
	Seed uint64
}

// unlimitedTokens stands for a token budget without bound.
const unlimitedTokens = 10_000_000

const defaultSeed = 42

// NewKV returns a KV router of idle workers.
func NewKV(o Options) (*KV, error) {
	config := o.Config.ForStage(o.Stage)
	if o.Stage == Decode {
		o.Estimator = nil
	}
	switch {
	case config.PrefillLoadModel == LoadAIC && o.Estimator == nil:
		return nil, fmt.Errorf("router_prefill_load_model='aic' requires aic_perf_config")
	case config.PrefillLoadModel != LoadAIC && o.Estimator != nil:
		return nil, fmt.Errorf("aic_perf_config requires router_prefill_load_model='aic'")
	}
	r := &KV{
		config:      config,
		tree:        o.Tree,
		blockTokens: int64(o.Tree.BlockTokens()),
		estimator:   o.Estimator,
		loads:       newLoads(o.Tree, o.Workers),
		record:      make([]int32, o.Requests),
	}
	if o.Exact {
		r.index = newTreeIndex(o.Tree)
	} else {
		r.index = newResidency(o.Tree, o.Workers)
	}
	if config.QueueThreshold != nil {
		budget := o.MaxBatchedTokens
		if budget == 0 {
			budget = unlimitedTokens
		}
		r.limit = float64(*config.QueueThreshold * float64(budget))
	}
	if config.Temperature > 0 {
		seed := o.Seed
		if seed == 0 {
			seed = defaultSeed
		}
		r.rand = sim.NewRand(seed, "router "+o.Stage.String())
	}
	for w := range o.Workers {
		if err := r.AddWorker(sim.WorkerID(w)); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Observe takes in what a pass did to a worker's cache. It never places a
// request.
func (r *KV) Observe(w sim.WorkerID, p *scheduler.Pass) error {
	if w < 0 || int(w) >= r.workers.known {
		return &WorkerError{Worker: w}
	}
	return r.index.observe(w, p)
}

// AddWorker makes w a candidate, with no load.
func (r *KV) AddWorker(w sim.WorkerID) error {
	if err := r.workers.add(w); err != nil {
		return err
	}
	n := r.workers.known
	r.index.grow(n)
	r.loads.grow(n)
	r.prefills.grow(n)
	r.overlap.grow(n)
	r.depth.grow(n)
	r.costs = append(r.costs, 0)
	r.odds = append(r.odds, 0)
	if r.isBusy(w) {
		r.busy++
	}
	return nil
}

// RemoveWorker makes w a candidate no longer.
func (r *KV) RemoveWorker(w sim.WorkerID) error {
	if err := r.workers.remove(w); err != nil {
		return err
	}
	r.costs = r.costs[:len(r.workers.ids)]
	r.odds = r.odds[:len(r.workers.ids)]
	if r.isBusy(w) {
		r.busy--
	}
	return nil
}

// Drain places held requests after a change of workers.
func (r *KV) Drain(now sim.Time, dst []Placement) ([]Placement, error) {
	if len(r.workers.ids) == 0 {
		return dst, nil
	}
	at, err := r.clock(now)
	if err != nil {
		return dst, err
	}
	return r.drain(at, dst)
}

// drain places held requests until every worker is busy.
func (r *KV) drain(now timing.Nanos, dst []Placement) ([]Placement, error) {
	var err error
	for len(r.queue.heap) > 0 && err == nil && !r.allBusy(now) {
		q := r.queue.pop(&r.overlap)
		dst, err = r.admit(now, q, dst)
	}
	return dst, err
}

// allBusy says whether there are workers and every one has too many prompt
// tokens to compute.
func (r *KV) allBusy(now timing.Nanos) bool {
	n := len(r.workers.ids)
	if r.estimator == nil {
		return n > 0 && r.busy == n
	}
	for _, w := range r.workers.ids {
		if !(float64(r.prefills.decayed(now, r.records, w)) > r.limit) {
			return false
		}
	}
	return n > 0
}

func (r *KV) isBusy(w sim.WorkerID) bool { return float64(r.prefills.tokens[w]) > r.limit }

// countBusy keeps busy right after the tokens of w have changed.
func (r *KV) countBusy(w sim.WorkerID, before bool) {
	switch after := r.isBusy(w); {
	case after == before || !r.workers.has(w):
	case after:
		r.busy++
	default:
		r.busy--
	}
}

// Queued is the number of requests held back.
func (r *KV) Queued() int { return len(r.queue.heap) }

// Waiting appends the requests held back, in the order in which they would be
// placed.
func (r *KV) Waiting(dst []sim.RequestID) []sim.RequestID {
	for _, h := range r.queue.heap.Sorted() {
		dst = append(dst, h.Value.request.ID)
	}
	return dst
}
