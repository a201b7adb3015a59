package offline

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// worker is a core and its pass in progress.
type worker struct {
	id   sim.WorkerID
	pool *pool
	core scheduler.Core // nil when gone

	state workerState
	since sim.Time // when it could have started a pass, when it is not busy (driveLazily)
	busy  bool
	pass  scheduler.Pass // in progress while busy
	began order          // of the end of the first pass of the run
	at    int            // place of the run's end among the events, while busy
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
