package router

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
)

// Live is the KV router for requests that were not known before: prompts are
// lists of hashes, workers and requests come and go under any names. It weighs
// as KV does and, on the same requests, makes the same placements; its memory
// follows what is in flight.
//
// Not safe for use by several goroutines.
type Live struct {
	config      Config
	blockTokens int64
	limit       float64
	estimator   Estimator
	rand        *rand.Rand // nil at temperature 0

	ids      []uint64 // registered workers, ascending
	workers  map[uint64]*liveWorker
	requests map[string]*liveRequest
	queue    []*liveRequest // held, the first to be placed first
	count    uint64         // requests ever held
	costs    []float64
	odds     []float64
}

// LiveOptions says what a live router is for.
type LiveOptions struct {
	Config      Config
	Stage       Stage
	BlockTokens int // tokens of an engine's block, > 0
	// MaxBatchedTokens is the token budget of a pass of an engine; 0 is no bound,
	// which counts as 10,000,000 where held requests are concerned.
	MaxBatchedTokens int
	// Estimator predicts prefills; nil where none is configured.
	Estimator Estimator
	// Seed is for the draws at a temperature above 0; 0 is 42.
	Seed uint64
}

// LiveRequest is a request as a live router sees it.
type LiveRequest struct {
	ID       string
	Tokens   int      // of the prompt, > 0
	Sequence []uint64 // sequence hashes of its full blocks
	// Overlap is, by worker, how many of the leading blocks it caches, and
	// Longest the largest number known of anyone, candidate or not.
	Overlap map[uint64]int32
	Longest int32
}

// LivePlacement is a decision of a live router.
type LivePlacement struct {
	Request string
	Worker  uint64
	Overlap int32   // blocks cached on Worker, as seen at arrival
	Blocks  int32   // blocks of the prompt, the last one perhaps not full
	Cost    float64 // of Worker, in blocks
}

// liveWorker is the load of a worker. It stays until its last request has left.
type liveWorker struct {
	registered bool
	refs       map[uint64]int32 // holders by sequence hash
	blocks     int64            // active blocks
	running    int              // requests
	order      []*liveRequest   // with prompt tokens to compute, the oldest first
	tokens     int64            // sum of their charges
	since      timing.Nanos     // when the oldest became the oldest
}

// liveRequest is a request held or placed.
type liveRequest struct {
	LiveRequest
	key     float64
	number  uint64 // among all that were held
	worker  *liveWorker
	at      uint64 // the worker's name
	prefill record
}

// NewLive returns a live router without workers.
func NewLive(o LiveOptions) (*Live, error) {
	config := o.Config.ForStage(o.Stage)
	if o.Stage == Decode {
		o.Estimator = nil
	}
	switch {
	case o.BlockTokens <= 0:
		return nil, fmt.Errorf("blocks of %d tokens, want > 0", o.BlockTokens)
	case config.PrefillLoadModel == LoadAIC && o.Estimator == nil:
		return nil, fmt.Errorf("router_prefill_load_model='aic' requires aic_perf_config")
	case config.PrefillLoadModel != LoadAIC && o.Estimator != nil:
		return nil, fmt.Errorf("aic_perf_config requires router_prefill_load_model='aic'")
	}
	r := &Live{
		config: config, blockTokens: int64(o.BlockTokens), estimator: o.Estimator,
		workers: make(map[uint64]*liveWorker), requests: make(map[string]*liveRequest),
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
	return r, nil
}

// Recheck says that held requests may be placed by the mere passing of time, for
// which Drain is to be called now and then.
func (r *Live) Recheck() bool { return r.estimator != nil && r.config.QueueThreshold != nil }

// Workers appends the workers that are candidates, ascending.
func (r *Live) Workers(dst []uint64) []uint64 { return append(dst, r.ids...) }

// Queued is the number of requests held back.
func (r *Live) Queued() int { return len(r.queue) }

// AddWorker makes a worker a candidate. A change of the set of workers is
// complete with one call of Drain after it.
func (r *Live) AddWorker(id uint64) error {
	w := r.workers[id]
	if w == nil {
		w = &liveWorker{refs: make(map[uint64]int32)}
		r.workers[id] = w
	}
	if w.registered {
		return fmt.Errorf("router worker %d already exists", id)
	}
	w.registered = true
	i, _ := slices.BinarySearch(r.ids, id)
	r.ids = slices.Insert(r.ids, i, id)
	return nil
}

// RemoveWorker makes a worker a candidate no longer; its requests stay known.
func (r *Live) RemoveWorker(id uint64) error {
	w := r.workers[id]
	if w == nil || !w.registered {
		return fmt.Errorf("router worker %d does not exist", id)
	}
	w.registered = false
	i, _ := slices.BinarySearch(r.ids, id)
	r.ids = slices.Delete(r.ids, i, i+1)
	r.bury(id, w)
	return nil
}

// bury forgets a worker that is no candidate and has no requests.
func (r *Live) bury(id uint64, w *liveWorker) {
	if !w.registered && w.running == 0 {
		delete(r.workers, id)
	}
}

// Route takes in a request: it is placed, or held. Placements are appended to
// dst.
func (r *Live) Route(now sim.Time, q LiveRequest, dst []LivePlacement) ([]LivePlacement, error) {
	at, err := instant(now)
	if err != nil {
		return dst, err
	}
	if _, ok := r.requests[q.ID]; ok {
		return dst, fmt.Errorf("request %s is already placed or held", q.ID)
	}
	x := &liveRequest{LiveRequest: q}
	if r.config.QueueThreshold != nil && r.allBusy(at) {
		r.hold(at, x)
		return dst, nil
	}
	return r.admit(at, x, dst)
}

// hold keeps a request back, behind those of the same key.
func (r *Live) hold(at timing.Nanos, x *liveRequest) {
	switch r.config.QueuePolicy {
	case LCFS:
		x.key = 0 + at.Seconds()
	case WSPT:
		x.key = 1 / float64(max(1, int64(x.Tokens)-int64(x.Longest)*r.blockTokens))
	default:
		x.key = 0 - at.Seconds()
	}
	x.number = r.count
	r.count++
	i := slices.IndexFunc(r.queue, func(y *liveRequest) bool { return y.key < x.key })
	if i < 0 {
		i = len(r.queue)
	}
	r.queue = slices.Insert(r.queue, i, x)
	r.requests[x.ID] = x
}

// Drain places held requests until every worker is busy.
func (r *Live) Drain(now sim.Time, dst []LivePlacement) ([]LivePlacement, error) {
	at, err := instant(now)
	if err != nil {
		return dst, err
	}
	return r.drain(at, dst)
}

func (r *Live) drain(at timing.Nanos, dst []LivePlacement) ([]LivePlacement, error) {
	if r.config.QueueThreshold == nil || len(r.ids) == 0 {
		return dst, nil // what is held waits for workers, too
	}
	var err error
	for len(r.queue) > 0 && err == nil && !r.allBusy(at) {
		x := r.queue[0]
		r.queue = slices.Delete(r.queue, 0, 1)
		delete(r.requests, x.ID)
		dst, err = r.admit(at, x, dst)
	}
	return dst, err
}

// PrefillDone says that a placed request has its first token.
func (r *Live) PrefillDone(now sim.Time, id string, dst []LivePlacement) ([]LivePlacement, error) {
	at, err := instant(now)
	if err != nil {
		return dst, err
	}
	x := r.requests[id]
	if x == nil || x.worker == nil {
		return dst, fmt.Errorf("request %s is not placed", id)
	}
	x.endPrefill(at)
	return r.drain(at, dst)
}

// Finished says that a request has left: its worker, or the queue it was held
// in. One that is not known is ignored.
func (r *Live) Finished(now sim.Time, id string, dst []LivePlacement) ([]LivePlacement, error) {
	at, err := instant(now)
	if err != nil {
		return dst, err
	}
	if x := r.requests[id]; x != nil {
		delete(r.requests, id)
		if x.worker == nil {
			r.queue = slices.DeleteFunc(r.queue, func(y *liveRequest) bool { return y == x })
		} else {
			r.leave(at, x)
		}
	}
	return r.drain(at, dst)
}
