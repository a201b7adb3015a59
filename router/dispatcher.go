package router

import (
	"github.com/replay-llm/replay/internal/sliding"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Dispatcher places requests on workers as its policy chooses. Dispatcher keeps only the facts that the policy needs.
//
// A Dispatcher is not safe for concurrent use.
type Dispatcher struct {
	policy      Policy
	admission   Admission // nil: every request is admitted
	needs       Needs     // of the policy and the admission
	kept        Needs     // needs, and the needs of later policies
	blind       bool      // the policy needs nothing
	tells       bool      // placements have overlaps even if the policy does not need them
	patient     bool      // without workers, requests stay held
	blockTokens int64

	workers        workers
	busy           int        // number of registered workers with more tokens to compute than Hold allows
	seen           Candidates // the facts that are kept
	shown          Candidates // the facts that the policy receives, if they are fewer; see view
	zeros          []int64
	zeros32        []int32
	signals        Signals
	index          index // nil unless the policy needs overlaps
	loads          loads // nil unless the policy needs blocks that may be shared
	queue          queue
	classes        []ClassTerms
	fair           fairness       // between classes; only for the order WFQ
	admissionQueue admissionQueue // requests that the admission holds
	meters         meters

	clock     sim.Time    // of the latest call
	late      *lateCaches // nil: cache events are known at once
	lateLoads *lateLoads  // nil: loads are known at once
	tokens    []int64     // by worker: actual prompt tokens to compute

	ledger

	overlap, active scores // of the current request, by worker
	sparse          bool   // the policy reads overlap and active as Sparse, not as columns
}

// ledger is the running requests, each with its worker.
type ledger struct {
	records []record
	vacant  []int32              // free records
	record  sliding.Table[int32] // by request: 1 + index of its record; 0: unknown, isHeld: held
}

const isHeld = -1

var _ Router = (*Dispatcher)(nil)

// record is a request that runs on a worker.
type record struct {
	request *sim.Request
	worker  sim.WorkerID
	charge  int64 // prompt tokens to compute; 0 after its prefill
}

// index is the cached blocks of each worker.
type index interface {
	observe(w sim.WorkerID, p *scheduler.Pass) error
	match(q *sim.Request, s *scores)
	grow(workers int)
	forget(w sim.WorkerID)
}

// loads counts the distinct prompt blocks of the running requests of each worker.
type loads interface {
	add(w sim.WorkerID, q *sim.Request)
	remove(w sim.WorkerID, q *sim.Request)
	// match finds the number of leading blocks of a prompt that are active on each worker.
	match(q *sim.Request, s *scores)
	grow(workers int)
	byWorker() []int64
}

// Options configure a dispatcher.
type Options struct {
	Policy  Policy
	Workers int // ids 0 to Workers-1 are registered from the start
	// Tree is the tree of prompts, in blocks of the engines' size. Tree is nil if prompts are known by their hashes.
	Tree *prompt.Tree
	// Exact uses Pass.Events and a full block index. Otherwise Pass.KV is used, which is faster. Pass.KV and
	// Pass.Events give equal results for engines that never cache a block without its parent.
	Exact bool
	// Hashes looks up prompts instead of Tree, and BlockTokens is the number of tokens per block, > 0. Policies that
	// need no blocks need neither Hashes nor Tree.
	Hashes      Hashes
	BlockTokens int
	// Names returns the names of workers, which must be unique. If Names is nil, ids are used.
	Names func(sim.WorkerID) uint64
	// Admission decides on requests before Policy. If Admission is nil, all requests are routed.
	Admission Admission
	// Later is the needs of the policies that may follow Policy.
	Later []Needs
	// Classes are the weights and deadlines for the order of held requests, by sim.Request.Class.
	Classes []ClassTerms
	// Signals are the ages of the signals that the policy reads.
	Signals Signals
	// Lossy ignores events about blocks that an exact index does not know. For example, a worker without a prefix
	// cache that gets the same request twice announces the removal of blocks that it still has.
	Lossy bool
	// Keep is further state to keep, in addition to the needs of the policy. If Keep includes Overlap, placements
	// have overlaps.
	Keep Needs
	// Patient keeps held requests waiting while there are no workers. If Patient is false, held requests without
	// workers are an error.
	Patient bool
}

// New returns a dispatcher of idle workers.
func New(o Options) *Dispatcher {
	d := &Dispatcher{blockTokens: int64(o.BlockTokens), patient: o.Patient, classes: o.Classes}
	d.setPolicy(o.Policy, o.Admission)
	d.kept = d.needs
	for _, later := range o.Later {
		d.kept.addLater(later)
	}
	d.kept.addLater(o.Keep)
	d.tells = o.Keep.Overlap
	d.blind, d.signals = d.kept == Needs{}, o.Signals
	d.seen.ages = makeAges(d.signals, d.needs.Gate != nil)
	d.workers.names, d.seen.names = o.Names, o.Names
	if o.Tree != nil {
		d.blockTokens = int64(o.Tree.BlockTokens())
	}
	if !d.blind {
		d.makeIndex(o)
		d.makeLate()
	}
	d.workers.ids = make([]sim.WorkerID, 0, o.Workers)
	for w := range o.Workers {
		_ = d.workers.add(sim.WorkerID(w)) // cannot fail: the worker is new
	}
	d.growColumns()
	return d
}

// makeIndex creates the cache index and the counter of active blocks.
func (d *Dispatcher) makeIndex(o Options) {
	switch {
	case !d.kept.Overlap:
	case o.Tree == nil:
		d.index = hashIndex{o.Hashes}
	case o.Exact:
		x := newTreeIndex(o.Tree)
		x.lossy = o.Lossy
		d.index = x
	default:
		d.index = residency{newHoldings(o.Tree, o.Workers)}
	}
	switch {
	case !d.kept.Shared:
	case o.Tree == nil:
		d.loads = &hashLoads{hashes: o.Hashes}
	default:
		d.loads = newTreeLoads(o.Tree, o.Workers)
	}
}

// growColumns extends all columns to the known workers.
func (d *Dispatcher) growColumns() {
	d.seen.Workers = d.workers.ids
	if d.blind {
		return
	}
	n, c := d.workers.known, &d.seen
	c.Running, c.Tokens = growSlice(c.Running, n), growSlice(c.Tokens, n)
	if d.tokens = c.Tokens; d.lateLoads != nil {
		d.lateLoads.tokens, d.lateLoads.logs = growSlice(d.lateLoads.tokens, n), growSlice(d.lateLoads.logs, n)
		d.tokens = d.lateLoads.tokens
	}
	if d.kept.Metrics {
		c.Metrics, d.meters.reports, d.meters.read = growSlice(c.Metrics, n), growSlice(d.meters.reports, n), growSlice(d.meters.read, n)
		for len(d.meters.idle) < n {
			d.meters.idle = append(d.meters.idle, true)
		}
	}
	d.overlap.grow(n)
	d.active.grow(n)
	c.Overlap, c.Active = d.overlap.by, d.active.by
	if d.index != nil {
		d.index.grow(n)
	}
	if d.loads == nil {
		c.Blocks = growSlice(c.Blocks, n)
	} else {
		d.loads.grow(n)
		c.Blocks = d.loads.byWorker()
	}
	d.makeLadder()
}

// growSlice returns s, extended by zeros to at least the given length.
func growSlice[T any](s []T, length int) []T {
	if length <= len(s) {
		return s
	}
	return append(s, make([]T, length-len(s))...)
}

// Observe applies the cache changes of a pass. Observe never places a request.
func (d *Dispatcher) Observe(w sim.WorkerID, p *scheduler.Pass) error {
	switch {
	case d.index == nil:
		return nil
	case w < 0 || int(w) >= d.workers.known:
		return &WorkerError{Worker: w}
	}
	if x, ok := d.index.(*treeIndex); ok && p.EventsLost > 0 {
		x.lossy = true // later events may be about blocks that were never announced
	}
	if d.late != nil {
		d.late.observe(w, p)
		return nil
	}
	return d.index.observe(w, p)
}

// LearnCache adds the initial cache of a worker, which is known without a delay. LearnCache has no effect if cache
// events are never known.
func (d *Dispatcher) LearnCache(w sim.WorkerID, p *scheduler.Pass) error {
	if d.index == nil || d.late != nil && d.late.age.Never {
		return nil
	}
	return d.index.observe(w, p)
}

// AddWorker makes w a candidate, with its current load.
func (d *Dispatcher) AddWorker(w sim.WorkerID) error {
	if err := d.workers.add(w); err != nil {
		return err
	}
	d.growColumns()
	if d.lateLoads != nil {
		d.lateLoads.catchUpOn(w, d)
	}
	if d.isBusy(w) {
		d.busy++
	}
	return nil
}

// RemoveWorker removes w from the candidates.
func (d *Dispatcher) RemoveWorker(w sim.WorkerID) error {
	if err := d.workers.remove(w); err != nil {
		return err
	}
	d.seen.Workers = d.workers.ids
	if d.seen.ladder != nil {
		d.seen.ladder.remove(w)
	}
	if d.isBusy(w) {
		d.busy--
	}
	return nil
}

// Workers returns the candidates, ascending by name.
func (d *Dispatcher) Workers() []sim.WorkerID { return d.workers.ids }

// Loads returns the known facts of all workers, valid until the next call.
func (d *Dispatcher) Loads() *Candidates { return &d.seen }

// Drain places held requests after a change of workers.
func (d *Dispatcher) Drain(now sim.Time, dst []Placement) ([]Placement, error) {
	if d.blind || len(d.workers.ids) == 0 {
		return dst, nil
	}
	if err := d.setClock(now); err != nil {
		return dst, err
	}
	return d.placeWaiting(now, dst)
}

// placeWaiting places requests that the policy holds back, and then requests that the admission admits.
func (d *Dispatcher) placeWaiting(now sim.Time, dst []Placement) ([]Placement, error) {
	dst, err := d.placeHeld(now, dst)
	if err != nil || d.admissionQueue.count == 0 {
		return dst, err
	}
	return d.admitHeld(now, dst)
}

// placeHeld places held requests until every worker is busy.
func (d *Dispatcher) placeHeld(now sim.Time, dst []Placement) ([]Placement, error) {
	switch {
	case d.needs.Gate != nil && d.needs.Gate.ReadsMetrics():
		return dst, nil // the gate opens when workers report
	case d.needs.Gate != nil:
		return d.placeReleased(now, dst)
	case d.patient && len(d.workers.ids) == 0:
		return dst, nil
	}
	var err error
	for len(d.queue.heap) > 0 && err == nil && !d.allBusy() {
		if d.needs.Hold.Order == WFQ {
			d.fair.serve(d.queue.heap[0].Key)
		}
		d.readSignals(now)
		q := d.queue.pop(&d.overlap)
		dst, err = d.placeRequest(q, dst)
	}
	return dst, err
}

// allBusy reports whether there is a worker and every worker is busy.
func (d *Dispatcher) allBusy() bool {
	n := len(d.workers.ids)
	return n > 0 && d.busy == n
}

// isBusy reports whether a worker has more prompt tokens to compute than the Hold of the policy allows. isBusy is
// false if only a later policy needs the tokens.
func (d *Dispatcher) isBusy(w sim.WorkerID) bool {
	return d.needs.Hold != nil && d.needs.Tokens && float64(d.tokens[w]) > d.needs.Hold.tokensOf(w)
}

// changeTokens adds by to the prompt tokens that w must compute.
func (d *Dispatcher) changeTokens(w sim.WorkerID, by int64) {
	before := d.isBusy(w)
	d.tokens[w] += by
	if d.lateLoads == nil {
		d.seen.noteLoad(w)
	}
	switch after := d.isBusy(w); {
	case after == before || !d.workers.has(w):
	case after:
		d.busy++
	default:
		d.busy--
	}
}

// Queued returns the number of held requests.
func (d *Dispatcher) Queued() int { return len(d.queue.heap) + d.admissionQueue.count }

// Waiting appends the held requests in the order in which they would be placed. Requests that the Admission holds
// follow, line by line.
func (d *Dispatcher) Waiting(dst []sim.RequestID) []sim.RequestID {
	for _, h := range d.queue.heap.Sorted() {
		dst = append(dst, h.Value.request.ID)
	}
	return d.appendHeld(dst)
}

// roundInstant rounds an instant to whole nanoseconds.
func roundInstant(now sim.Time) (timing.Nanos, error) {
	return timing.FromSeconds(float64(now.Max0()) / 1000)
}

// checkInstant returns the error of roundInstant.
func checkInstant(now sim.Time) error {
	_, err := roundInstant(now)
	return err
}

// setClock records the instant of a call.
func (d *Dispatcher) setClock(now sim.Time) error {
	d.clock = now
	return checkInstant(now)
}
