package calibrate

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/reference"
	"github.com/replay-llm/replay/sim"
)

// engine is one of the engines of a server, most of which have one.
type engine struct {
	core   scheduler.Core
	vllm   *vllm.Core // the same; nil under the rules of the reference
	pass   scheduler.Pass
	now    sim.Time // when its next pass begins, while it has one to run
	queue  []int    // requests on their way to it, by arrival
	number int
	begun  bool // its pass of the lockstep at hand
	known  load // what the front end has it do
	latest load // what it reported last
}

// load is the report of an engine.
type load struct{ waiting, running int }

// refresh is the time between two reports of the engines to the front end, in ms.
const refresh = 100

// front spreads requests over engines as the front end of vLLM does: to the least of 4·waiting + running. The numbers
// are reports at most refresh old; requests sent since count as waiting.
type frontEnd struct {
	engines []*engine
	at      sim.Time // of the last refresh
	taken   []int    // which engine took each request; nil: the front end chooses
}

// sendRequest hands in a request that arrives at the given time.
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

// reportLoad keeps the load of e for the front end.
func (e *engine) reportLoad() {
	if e.vllm != nil {
		e.latest.waiting, e.latest.running = e.vllm.Line()
	}
}

// server is a run of engines.
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

// submitArrived submits what has arrived at e by its time.
func (r *server) submitArrived(e *engine) {
	n := 0
	for n < len(e.queue) && r.arrivals[e.queue[n]] <= e.now {
		e.core.Submit(&r.requests[e.queue[n]])
		n++
	}
	e.queue = append(e.queue[:0], e.queue[n:]...)
}

// stepEngine lets e take a pass, or a run of them that begin before an instant.
func (r *server) stepEngine(e *engine, until sim.Time) error {
	if r.watch != nil { // it is shown every pass
		until = e.now
	}
	if err := e.core.Step(e.now, until, &e.pass); err != nil {
		return err
	}
	e.now = e.pass.End
	r.notePass(e)
	return nil
}

// notePass notes the pass of e, which is over.
func (r *server) notePass(e *engine) {
	if r.out.record != nil {
		r.out.record.engine = e.number
	}
	r.out.notePass(&e.pass)
	if r.watch != nil {
		r.watch(&e.pass)
	}
}

// runLockstep lets all engines begin and end their passes together; each lasts as
// long as one that had the most of everything. Engines without work wait.
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

// runApart lets every engine run at its own pace.
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

// runUntil runs the passes of e that begin before an instant.
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
