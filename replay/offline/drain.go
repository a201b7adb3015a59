package offline

import (
	"fmt"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// cause is the reason why requests lose their worker.
type cause struct {
	event int   // number of the incident
	drain *kill // nil: the cause is a fault
}

// kill is the end of a drain by its timeout.
type kill struct {
	how  engines.OnLoss
	done *harness.Drains
}

// planKill schedules the end of a drain if drains of the pool have a timeout.
func (f *fleet) planKill(w *worker) {
	if a := w.pool.auto; a != nil && a.Drain > 0 && w.state == leaving {
		w.left = f.c.now
		f.c.agenda.schedule(f.c.now+a.Drain, drainEnds{w, f.c.now})
	}
}

// drainEnds kills a worker that has been leaving since an instant and still has requests.
type drainEnds struct {
	w     *worker
	since sim.Time
}

func (x drainEnds) happen(c *cluster) error {
	w := x.w
	if w.state != leaving || w.left != x.since {
		return nil
	}
	a, back := w.pool.auto, engines.Forever
	if w.returns {
		back = w.back
	}
	k := kill{engines.RetryThem, a.done.Drains}
	if a.OnKill != "" {
		k.how = engines.OnLoss(a.OnKill)
	}
	k.done.Kills++
	hit := []*worker{w}
	number := c.faults.noteIncident(fmt.Sprintf("%s is killed, its drain takes more than %gs", w.pool.nameWorker(w.id), float64(a.Drain)/1000), hit)
	return c.lives.killWorkers(hit, back, cause{number, &k})
}

// count counts a request by its outcome: lost, migrated or retried.
func (k *kill) count(after, before collector.Fate, again bool) {
	switch {
	case !again:
		k.done.Lost++
	case after.Migrations > before.Migrations:
		k.done.Migrated++
	default:
		k.done.Retried++
	}
}

// nameWorker returns a name of a worker that is unique among all pools.
func (p *pool) nameWorker(id sim.WorkerID) string {
	if p.Role == scheduler.Aggregated {
		return fmt.Sprintf("worker %d", id)
	}
	return fmt.Sprintf("%s worker %d", p.Role, id)
}
