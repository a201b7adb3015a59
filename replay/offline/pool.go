package offline

import (
	"fmt"
	"sort"

	"github.com/replay-llm/replay/internal/bitset"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// pool is the workers of one stage and the router in front of them.
type pool struct {
	*harness.Pool
	workers []*worker  // by id
	ready   bitset.Set // workers that could start a pass
	due     dueTable   // empty except under driveLazily
	first   uint64     // rank of worker 0 among all workers
	metered bool       // its router reads what workers report after each pass
	batches bool       // its router decides on requests of one instant together
	visible bool       // the tokens of its passes are those of answers
	drafts  bool       // a pass may give a request several tokens

	serving int             // active workers
	parked  []sim.RequestID // requests that wait for one, in the order in which they came

	auto    *autoscaler // nil: the number of workers is fixed
	entered int         // requests that have come to it on their way between the pools, or where a decode worker is chosen first
	prompts int         // tokens of the prompts that have come to it

	snapshots []scheduler.Snapshot // kept for a Stepper
}

// maxIDs is how many workers a pool may have in the course of a replay: their ids
// and their ranks among all workers have room for no more.
const maxIDs = 1 << 31

// addWorker makes a worker.
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

// markIdle notes that w is not busy; when it has work it could start a pass.
func (p *pool) markIdle(w *worker) {
	w.busy = false
	if w.core.Load() > 0 || w.handing > 0 {
		p.ready.Add(int(w.id))
	}
}

// keepSnapshot keeps what a planner sees of the pass w has begun; of each pass for a Stepper.
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
	core scheduler.Core // nil when gone

	state    workerState
	since    sim.Time // when it could have started a pass, when it is not busy (driveLazily)
	busy     bool
	pass     scheduler.Pass // in progress while busy
	ties     int            // requests on their way from it or to it, by a ticket (handover.go)
	asking   []*ticket      // in line for room on it, see room.go
	promised int            // KV blocks that it has promised to requests in transfer
	coming   int            // these requests
	handing  int            // requests that have left it, of which it has yet to be handed the blocks

	began order // of the end of the first pass of the run
	at    int   // place of the run's end among the events, while busy

	life // see lives.go

	gauge gauge               // see autoscale.go
	shown *scheduler.Snapshot // of the latest pass that has begun, for planners
	runs  sim.Time            // from when on its server runs, while it starts
	left  sim.Time            // when it was let go, see drain.go
}

// endOrder is the place of the end of the run in progress.
func (w *worker) endOrder() order {
	p := &w.pass
	if p.Count == 1 {
		return w.began
	}
	return order{made: p.Begins(p.Count - 1), rank: rankPass + w.rank()}
}

// rank is w's place among all workers.
func (w *worker) rank() uint64 { return w.pool.first + uint64(w.id) }

// countBegun is the number of passes of the run in progress that have begun before
// now, or by now when inclusive. The first has.
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
