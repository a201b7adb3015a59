package calibrate

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/reference"
	"github.com/replay-llm/replay/sim"
)

// engine is one of the engines of a server. Most servers have only one engine.
type engine struct {
	core   scheduler.Core
	vllm   *vllm.Core // the same engine; nil: core is not vLLM's
	pass   scheduler.Pass
	now    sim.Time // start of the engine's next pass, while the engine has requests
	queue  []int    // requests that are not yet submitted, by arrival
	number int
	begun  bool // the engine takes part in the current pass of the lockstep
	known  load // load as the front end knows it
	latest load // load of the engine's last report
}

// load is the report of an engine to the front end.
type load struct{ waiting, running int }

// refresh is the time in ms between two reports of the engines to the front end.
const refresh = 100

// frontEnd distributes requests over engines as the front end of vLLM does: to the engine with the least 4·waiting +
// running. The numbers are reports that are at most refresh old. Requests that were sent after the report count as
// waiting.
type frontEnd struct {
	engines []*engine
	at      sim.Time // instant of the last refresh
	taken   []int    // the engine of each request; nil: the front end chooses
}

// sendRequest sends a request that arrives at the given time to an engine.
func (f *frontEnd) sendRequest(request int, at sim.Time) {
	if f.taken != nil {
		e := f.engines[f.taken[request]]
		e.queue = append(e.queue, request)
		return
	}
	if at-f.at >= refresh {
		f.at = at
		for _, e := range f.engines {
			e.known = e.latest
		}
	}
	best := f.engines[0]
	for _, e := range f.engines[1:] {
		if 4*e.known.waiting+e.known.running < 4*best.known.waiting+best.known.running {
			best = e
		}
	}
	best.known.waiting++
	best.queue = append(best.queue, request)
}

// reportLoad updates the latest load of e, which the front end takes at its next refresh.
func (e *engine) reportLoad() {
	if e.vllm != nil {
		e.latest.waiting, e.latest.running = e.vllm.Line()
	}
}

// server is the state of one simulation of all engines.
type server struct {
	*Simulation
	front frontEnd
	clock timing.Clock
	out   *Outcome
	watch func(*scheduler.Pass)
}

func (s *Simulation) newServer(model timing.Model, out *Outcome, watch func(*scheduler.Pass)) (*server, error) {
	r := &server{Simulation: s, clock: s.clockOf(0, model), out: out, watch: watch}
	r.front.at, r.front.taken = -refresh, s.taken
	for number := range s.settings.Engines() {
		e := &engine{number: number}
		var err error
		switch {
		case s.stage != nil:
			e.core, err = s.newCore(s.clockOf(number, model))
		case s.rules.Reference():
			e.core = reference.New(s.config(s.clockOf(number, model)))
		default:
			e.vllm, err = vllm.New(s.config(s.clockOf(number, model)))
			e.core = e.vllm
		}
		if err != nil {
			return nil, err
		}
		if watch != nil {
			e.pass.Detail = new(scheduler.Detail)
		}
		r.front.engines = append(r.front.engines, e)
	}
	return r, nil
}

// submitArrived submits the requests that arrived at e up to its time.
func (r *server) submitArrived(e *engine) {
	n := 0
	for n < len(e.queue) && r.arrivals[e.queue[n]] <= e.now {
		e.core.Submit(&r.requests[e.queue[n]])
		n++
	}
	e.queue = append(e.queue[:0], e.queue[n:]...)
}

// stepEngine runs one pass of e, or several equal passes that start before until.
func (r *server) stepEngine(e *engine, until sim.Time) error {
	if r.watch != nil { // watch must receive every pass
		until = e.now
	}
	if err := e.core.Step(e.now, until, &e.pass); err != nil {
		return err
	}
	e.now = e.pass.End
	r.notePass(e)
	return nil
}

// notePass records the completed pass of e.
func (r *server) notePass(e *engine) {
	if r.out.record != nil {
		r.out.record.engine = e.number
	}
	r.out.notePass(&e.pass)
	if r.watch != nil {
		r.watch(&e.pass)
	}
}

// runLockstep runs all engines with passes that start and end at the same instants. A pass lasts as long as a pass
// with the largest amount of each kind of work. Engines without work wait.
func (r *server) runLockstep() error {
	now := sim.Time(0)
	for next := 0; next < len(r.requests) || r.isBusy(); {
		if !r.isBusy() {
			now = max(now, r.arrivals[next])
		}
		for ; next < len(r.requests) && r.arrivals[next] <= now; next++ {
			r.front.sendRequest(next, r.arrivals[next])
		}
		var most timing.Step
		for _, e := range r.front.engines {
			e.now = now
			r.submitArrived(e)
			e.reportLoad()
			if e.begun = e.core.Load() > 0; !e.begun {
				continue
			}
			step, err := e.vllm.Begin(now, &e.pass)
			if err != nil {
				return err
			}
			most.Widen(step)
		}
		ms, err := r.clock.Step(&most)
		if err != nil {
			return err
		}
		now += sim.Time(ms)
		for _, e := range r.front.engines {
			if !e.begun {
				continue
			}
			e.pass.End = now
			if err := e.vllm.End(&e.pass); err != nil {
				return err
			}
			r.notePass(e)
		}
	}
	return nil
}

// isBusy reports whether an engine has requests.
func (r *server) isBusy() bool {
	return slices.ContainsFunc(r.front.engines, func(e *engine) bool { return e.core.Load() > 0 })
}

// runApart runs every engine at its own pace.
func (r *server) runApart() error {
	for next, at := range r.arrivals {
		for _, e := range r.front.engines {
			if err := r.runUntil(e, at); err != nil {
				return err
			}
		}
		r.front.sendRequest(next, at)
	}
	for _, e := range r.front.engines {
		if err := r.runUntil(e, sim.Time(1e300)); err != nil {
			return err
		}
	}
	return nil
}

// runUntil runs the passes of e that start before an instant.
func (r *server) runUntil(e *engine, at sim.Time) error {
	for e.now < at {
		r.submitArrived(e)
		if e.core.Load() == 0 {
			if len(e.queue) == 0 {
				e.reportLoad()
				return nil
			}
			e.now = r.arrivals[e.queue[0]]
			continue
		}
		e.reportLoad()
		if err := r.stepEngine(e, at); err != nil {
			return err
		}
	}
	return nil
}
