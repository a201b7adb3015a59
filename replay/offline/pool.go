package offline

import (
	"fmt"
	"sort"

	"github.com/replay-llm/replay/internal/bitset"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// pool is the workers of one stage, with their router.
type pool struct {
	*harness.Pool
	workers []*worker  // by id
	ready   bitset.Set // workers that could start a pass
	due     dueTable   // empty except under driveLazily
	first   uint64     // rank of worker 0 among all workers
	metered bool       // its router reads the reports of workers after each pass
	batches bool       // its router places the requests of one instant in one decision
	visible bool       // the tokens of its passes are tokens of answers
	drafts  bool       // a pass may give a request several tokens

	serving int             // active workers
	parked  []sim.RequestID // requests that wait for an active worker, in order of arrival

	auto    *autoscaler // nil: the number of workers is fixed
	entered int         // requests that entered the pool after prefill, or before it if a decode worker is chosen first
	prompts int         // prompt tokens of the requests that entered

	snapshots []scheduler.Snapshot // for a Stepper
}

// maxIDs is the limit of workers that a pool may have during a replay. maxIDs bounds the ids of workers and their
// ranks among all workers.
const maxIDs = 1 << 31

// addWorker adds a worker with the next id.
func (p *pool) addWorker() error {
	if len(p.workers) >= maxIDs {
		return fmt.Errorf("worker %d of a pool, expected ids below %d", len(p.workers), maxIDs)
	}
	id := sim.WorkerID(len(p.workers))
	core, err := p.Core(id)
	if err != nil {
		return err
	}
	p.workers = append(p.workers, &worker{id: id, pool: p, core: core})
	return nil
}

// markIdle records that w is not busy. If w has work, w is ready for a pass.
func (p *pool) markIdle(w *worker) {
	w.busy = false
	if w.core.Load() > 0 || w.handing > 0 {
		p.ready.Add(int(w.id))
	}
}

// keepSnapshot keeps the snapshot that a planner reads of the pass that w has begun. If steps is set, keepSnapshot
// keeps a snapshot of each pass for a Stepper.
func (p *pool) keepSnapshot(w *worker, steps bool) {
	if !p.Steps {
		return
	}
	if w.core.Able().Has(scheduler.Shows) {
		snap := w.core.Snapshot(&w.pass)
		snap.Worker, snap.Seconds = int(w.id), float64(w.pass.End-w.pass.Start)/1000.0
		if w.shown = &snap; steps {
			p.snapshots = append(p.snapshots, snap)
		}
	}
}

// worker is a core and its pass in progress.
type worker struct {
	id   sim.WorkerID
	pool *pool
	core scheduler.Core // nil if gone

	state    workerState
	since    sim.Time // instant at which the worker became ready for a pass, while it is not busy (driveLazily)
	busy     bool
	pass     scheduler.Pass // in progress while busy
	ties     int            // tickets of requests from or to the worker (handover.go)
	asking   []*ticket      // tickets that wait for room on the worker, see room.go
	promised int            // KV blocks reserved for requests in transfer
	coming   int            // number of requests in transfer with reserved room
	handing  int            // requests with computed prompts, before the worker's pass with their blocks begins

	began order // order of the end of the first pass of the run
	at    int   // index of the run's end in the events, while busy

	life // see lives.go

	gauge gauge               // see autoscale.go
	shown *scheduler.Snapshot // snapshot of the latest pass that has begun, for planners
	runs  sim.Time            // instant at which the server of a starting worker runs
	left  sim.Time            // instant at which the worker began to leave, see drain.go
}

// endOrder returns the order of the end of the run in progress.
func (w *worker) endOrder() order {
	p := &w.pass
	if p.Count == 1 {
		return w.began
	}
	return order{made: p.Begins(p.Count - 1), rank: rankPass + w.rank()}
}

// rank returns the position of w among all workers of all pools.
func (w *worker) rank() uint64 { return w.pool.first + uint64(w.id) }

// countBegun returns the number of passes of the run in progress that have begun before now, or by now if inclusive
// is set. The result is at least 1.
func (w *worker) countBegun(now sim.Time, inclusive bool) int {
	p := &w.pass
	if len(p.Ends) > 0 {
		begun := p.Ends[:p.Count-1]
		return 1 + sort.Search(len(begun), func(i int) bool { return begun[i] > now || begun[i] == now && !inclusive })
	}
	if p.Count == 1 || p.Gap == 0 {
		return p.Count
	}
	k := min(max(int((now-p.Start)/p.Gap), 0), p.Count-1)
	for k > 0 && p.Begins(k) >= now {
		k--
	}
	for k+1 < p.Count && p.Begins(k+1) < now {
		k++
	}
	if inclusive && k+1 < p.Count && p.Begins(k+1) == now {
		k++
	}
	return k + 1
}
