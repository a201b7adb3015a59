// Package watch shows a replay while it runs: its time, its progress, and the state of each worker. A View counts
// events, and makes frames for a terminal or lines for a log. A Screen draws frames in place.
//
// Read view.go, rate.go, frame.go, then screen.go.
package watch

import (
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// View observes a replay and holds its state. The shown state depends only on the replay, and on no other clock.
type View struct {
	harness.NoObserver // of handoffs

	clock   sim.Time                   // time of the latest event
	arrived int                        // number of requests
	latest  sim.Time                   // arrival of the latest request
	workers harness.PerWorker[*worker] // nil: a worker without events
	current *worker                    // worker of the latest pass; nil before the first pass
	// apart is true if workers are replayed one after the other, so that their times differ and there is no common
	// time of the cluster.
	apart bool

	done, total int // requests, as of Count; 0 in all: not known
	inFlight    int // requests, as of Count
}

// worker is the state of a worker after its latest pass.
type worker struct {
	id    sim.WorkerID
	stage scheduler.Role

	at               sim.Time // the end of its latest pass
	from             sim.Time // the start of its first
	passes           int
	running, waiting int // requests
	held, blocks     int // KV blocks: held by requests, and in all

	requests, prompts, outputs rate // finished requests, and tokens
}

// Arrived counts a request.
func (v *View) Arrived(_ *sim.Request, at sim.Time) {
	v.arrived++
	v.latest = max(v.latest, at)
	v.clock = max(v.clock, at)
}

// Routed adds the worker, if it is new.
func (v *View) Routed(stage scheduler.Role, _ sim.Time, p *router.Placement) {
	v.workerAt(stage, p.Worker)
}

func (v *View) workerAt(stage scheduler.Role, id sim.WorkerID) *worker {
	w := v.workers.At(stage, id)
	if *w == nil {
		*w = &worker{id: id, stage: stage}
	}
	return *w
}

// Left removes a request from its worker. The next pass of the worker reports its state.
func (v *View) Left(d *harness.Departure) {
	v.clock = max(v.clock, d.At)
	if d.Worker < 0 {
		return
	}
	switch w := v.workerAt(d.Stage, d.Worker); {
	case w.running > 1 || w.running == 1 && w.waiting > 0:
		w.running--
	case w.running == 1:
		w.running, w.held = 0, 0
	case w.waiting > 0:
		w.waiting--
	}
}

// Pass stores the state of a worker after a pass or a run of passes.
func (v *View) Pass(stage scheduler.Role, id sim.WorkerID, p *scheduler.Pass) {
	// Time must not go backwards: a view shows no pass that ended before the latest arrival.
	if p.End < v.latest || v.total > 0 && v.arrived >= v.total && p.End < v.clock {
		v.apart = true
	}
	v.clock = max(v.clock, p.End)
	w := v.workerAt(stage, id)
	if w.passes == 0 {
		w.from, w.at = p.Start, p.Start
	}
	v.current = w
	w.passes += p.Count
	if d := p.Detail; d != nil {
		w.running, w.waiting, w.held, w.blocks = d.Running, d.Waiting, d.Held, d.Blocks
	}
	last := 0
	for i := range p.Marks {
		if p.Marks[i].Last {
			last++
		}
	}
	idle, length := (p.Start - w.at).Max0(), p.End-p.Start
	w.requests.addOver(idle, length, last)
	w.prompts.addOver(idle, length, p.Count*p.PrefillTokens)
	w.outputs.addOver(idle, length, p.Count*p.Tokens)
	w.at = p.End
}

// Count stores the number of finished requests and of all requests; 0 in all: unknown.
func (v *View) Count(done, total int) {
	v.done, v.total, v.inFlight = done, total, max(0, v.arrived-done)
}

// instant returns the time of a frame.
func (v *View) instant() sim.Time {
	if v.apart {
		return v.current.at
	}
	return v.clock
}

// until returns the time up to which the rates of a worker are known.
func (v *View) until(w *worker) sim.Time {
	if v.apart || w.running+w.waiting > 0 {
		return w.at // a pass in progress is counted when it is over
	}
	return max(w.at, v.clock)
}

// list returns the workers, by stage and id.
func (v *View) list() []*worker {
	var all []*worker
	for stage := range v.workers {
		for _, w := range v.workers[stage] {
			if w != nil {
				all = append(all, w)
			}
		}
	}
	return all
}

// totals holds sums over workers.
type totals struct {
	running, waiting           int
	held, blocks               int
	requests, prompts, outputs float64 // a second
}

// add adds a worker. The requests and output tokens of a worker do not count if the worker passes requests on to a
// decode worker.
func (t *totals) add(v *View, w *worker) {
	t.running += w.running
	t.waiting += w.waiting
	t.held += w.held
	t.blocks += w.blocks
	now := v.until(w)
	t.prompts += w.prompts.perSecond(w, now)
	if w.stage != scheduler.Prefill || v.apart {
		t.requests += w.requests.perSecond(w, now)
		t.outputs += w.outputs.perSecond(w, now)
	}
}

// sum returns the sums over all workers. If workers are replayed separately, it returns the values of the current
// worker.
func (v *View) sum() totals {
	var t totals
	if v.apart {
		t.add(v, v.current)
		return t
	}
	for _, w := range v.list() {
		t.add(v, w)
	}
	return t
}
