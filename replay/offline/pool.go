package offline

import (
	"fmt"
	"math/bits"

	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// pool is the workers of one stage and the router in front of them.
type pool struct {
	*harness.Pool
	workers []*worker  // by id
	ready   bitset     // workers that could start a pass
	due     []sim.Time // by worker: not to be looked at before (driveLazily)
	first   uint64     // rank of worker 0 among all workers
	visible bool       // the tokens of its passes are those of answers

	snapshots []scheduler.Snapshot // kept for a Stepper
}

// maxIDs is how many workers a pool may have in the course of a replay: their ids
// and their ranks among all workers have room for no more.
const maxIDs = 1 << 31

// addWorker makes a worker.
func (p *pool) addWorker() error {
	if len(p.workers) >= maxIDs {
		return fmt.Errorf("worker %d of a pool, want ids below %d", len(p.workers), maxIDs)
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
	if w.core.Load() > 0 {
		p.ready.set(int(w.id))
	}
}

// keepSnapshot keeps what a planner sees of the pass w has begun.
func (p *pool) keepSnapshot(w *worker) {
	if s, ok := w.core.(scheduler.Snapshotter); ok && p.Steps {
		snap := s.Snapshot(&w.pass)
		snap.Worker, snap.Seconds = int(w.id), float64(w.pass.End-w.pass.Start)/1000.0
		p.snapshots = append(p.snapshots, snap)
	}
}

// bitset is a set of small numbers.
type bitset []uint64

func (b *bitset) set(i int) {
	for i/64 >= len(*b) {
		*b = append(*b, 0)
	}
	(*b)[i/64] |= 1 << (i % 64)
}

func (b bitset) clear(i int) {
	if i/64 < len(b) {
		b[i/64] &^= 1 << (i % 64)
	}
}

// min is the smallest member, -1 when there is none.
func (b bitset) min() int {
	for i, word := range b {
		if word != 0 {
			return 64*i + bits.TrailingZeros64(word)
		}
	}
	return -1
}
