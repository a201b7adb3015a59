// Package watch reads a replay while it runs: its time, its progress, and the state of each worker. A View counts, and
// makes frames for a terminal or lines for a log; a Screen draws frames in place.
//
// Read view.go, rate.go, frame.go, then screen.go.
package watch

import (
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// View observes a replay and knows how it stands. What it shows depends on the replay alone, and on no
// other clock.
type View struct {
	harness.NoObserver // of handoffs

	clock   sim.Time                   // the latest instant at which something was seen
	arrived int                        // requests
	latest  sim.Time                   // when the latest of them arrived
	workers harness.PerWorker[*worker] // nil: none has been heard of
	current *worker                    // of the latest pass; nil before the first
	// apart is true if workers are replayed one after the other, so that each is at its own time: there is no instant
	// of the cluster then.
	apart bool

	done, total int // requests, as of Count; 0 in all: not known
	inFlight    int // requests, as of Count
}

// worker is one of a stage, after its latest pass.
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

// Routed notes that there is a worker.
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

// Left takes a request from its worker. The next pass of the worker reports its state.
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

// Pass notes how a worker stands after a pass or a run of passes.
func (v *View) Pass(stage scheduler.Role, id sim.WorkerID, p *scheduler.Pass) {
	// Callers move time forwards, so that a view shows no pass that ended before the latest arrival.
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

// Count notes how many requests have finished, of how many; 0 in all: unknown.
func (v *View) Count(done, total int) {
	v.done, v.total, v.inFlight = done, total, max(0, v.arrived-done)
}

// instant returns the time that a frame is about.
func (v *View) instant() sim.Time {
	if v.apart {
		return v.current.at
	}
	return v.clock
}

// until returns the instant up to which the rates of a worker are known.
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

// totals are the sums over workers.
type totals struct {
	running, waiting           int
	held, blocks               int
	requests, prompts, outputs float64 // a second
}

// add adds a worker. Its requests and output tokens count unless it sends them on.
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

// sum returns the sums over all workers; if workers are apart, those of the current one alone.
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
