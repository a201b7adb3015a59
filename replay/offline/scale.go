package offline

import (
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/sim"
)

// fleet is the planned changes of the number of workers and of other settings, and the autoscalers.
type fleet struct {
	c       *cluster
	scaling []engines.ScaleEvent // still to come
	changes []engines.Change     // still to come
}

// scalePools resizes every pool to its target and admits held requests that have room now (docs/rules/harness.md,
// Scaling). An autoscaler continues from the new size.
func (f *fleet) scalePools(targets []int) error {
	if f.c.instant.at == f.c.now {
		f.c.instant.irregular = true // the effects of this instant have begun already
	}
	for i, p := range f.c.pools {
		if targets[i] == engines.KeepSize {
			continue
		}
		if p.auto != nil {
			p.auto.want(f.c.now, targets[i], "set from outside", true)
		}
		if err := f.resizePool(p, targets[i]); err != nil {
			return err
		}
		if err := f.c.openPool(p); err != nil {
			return err
		}
	}
	return nil
}

// resizePool starts workers, or removes the latest workers. Starting workers are removed at once, other workers after
// their requests.
func (f *fleet) resizePool(p *pool, target int) error {
	have := 0
	for _, w := range p.workers {
		if w.isWanted() {
			have++
		}
	}
	for ; have < target; have++ {
		if err := f.launchWorker(p, engines.Forever); err != nil {
			return err
		}
	}
	for _, s := range [...]workerState{starting, leaving, active} {
		for i := len(p.workers) - 1; i >= 0 && have > target; i-- {
			w := p.workers[i]
			if w.state != s || !w.isWanted() {
				continue
			}
			have--
			if err := f.dismissWorker(w); err != nil {
				return err
			}
		}
	}
	return nil
}

// isWanted reports whether w counts towards the size of its pool. A worker that drains for a restart counts.
func (w *worker) isWanted() bool {
	return w.state == active || w.state == starting || w.state == leaving && w.returns
}

// launchWorker adds a worker, which is active after a while; engines.Forever: after its startup time.
func (f *fleet) launchWorker(p *pool, after sim.Time) error {
	if err := p.addWorker(); err != nil {
		return err
	}
	w := p.workers[len(p.workers)-1]
	f.c.faults.planBreakdowns(w)
	defer p.noteSize(f.c.now)
	runs, ready := after, after
	if after < 0 {
		runs, ready = p.drawStartup()
	}
	if ready > 0 {
		f.startWorker(w, runs, ready)
		return nil
	}
	p.serving++
	return p.Router.AddWorker(w.id)
}

// startWorker starts w, which has no work. The server of w runs after the time runs, and w is active after the time
// ready.
func (f *fleet) startWorker(w *worker, runs, ready sim.Time) {
	w.state, w.runs, w.died = starting, f.c.now+runs, false
	f.c.pending++
	f.c.events.push(event{at: f.c.now + ready, order: f.c.nextOrder(), kind: workerReady, worker: w})
}

// dismissWorker removes a worker from its pool. An active worker drains first.
func (f *fleet) dismissWorker(w *worker) error {
	defer w.pool.noteSize(f.c.now)
	switch w.state {
	case starting:
		w.state, w.core, w.returns = gone, nil, false // the event of its startup has no effect then
		return f.c.lives.endRestart(w)
	case leaving:
		w.returns = false // the worker does not restart
		return nil
	}
	w.state = leaving
	w.pool.serving--
	w.leaveIfDone()
	f.planKill(w)
	return w.pool.Router.RemoveWorker(w.id)
}

// makeReady activates w at the end of its startup. makeReady reports false if w was removed during the startup.
func (f *fleet) makeReady(w *worker) (bool, error) {
	f.c.pending--
	if w.state != starting {
		return false, nil
	}
	w.state = active
	w.pool.serving++
	w.pool.noteSize(f.c.now)
	if w.returns {
		w.returns, w.gauge = false, gauge{}
		w.pool.Router.Forget(w.id) // the router forgets the worker's state before the restart
	}
	if err := w.pool.Router.AddWorker(w.id); err != nil {
		return true, err
	}
	if err := f.c.openPool(w.pool); err != nil {
		return true, err
	}
	return true, f.c.lives.endRestart(w)
}

// workerState is the state of a worker in its pool.
type workerState uint8

const (
	active   workerState = iota
	starting             // gets no requests yet
	leaving              // gets no new requests
	gone
)

func (s workerState) String() string {
	return [...]string{"active", "starting", "leaving", "gone"}[s]
}

// leaveIfDone makes a leaving worker gone if it has nothing left to do, and frees its core.
func (w *worker) leaveIfDone() {
	if w.state == leaving && !w.busy && w.core.Load() == 0 && w.ties == 0 {
		w.state, w.core = gone, nil
	}
}

// countWorkers returns the number of active workers of a pool, and of all workers that are not gone.
func (p *pool) countWorkers() (activeCount, total int) {
	for _, w := range p.workers {
		if w.state == active {
			activeCount++
		}
		if w.state != gone {
			total++
		}
	}
	return activeCount, total
}
