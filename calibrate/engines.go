package calibrate

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/sim"
)

// engine is one of several data-parallel engines.
type engine struct {
	core   *vllm.Core
	pass   scheduler.Pass
	now    sim.Time // when its next pass begins, while it has one to run
	queue  []int    // requests on their way to it, by arrival
	number int
	begun  bool // its pass of the lockstep at hand
	known  load // what the front end has it do
	latest load // what it reported last
}

// load is what an engine reports of itself.
type load struct{ waiting, running int }

// refresh is the time between two reports of the engines to the front end, in ms.
const refresh = 100

// front spreads requests over engines as the front end of vLLM does: to the
// least of 4·waiting + running, by what the engines reported at most refresh ago,
// and what was sent since counts as waiting.
type frontEnd struct {
	engines []*engine
	at      sim.Time // of the last refresh
}

// sendRequest hands in a request that arrives at the given time.
func (f *frontEnd) sendRequest(request int, at sim.Time) {
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
func (e *engine) reportLoad() { e.latest.waiting, e.latest.running = e.core.Line() }

// parallel is a run of several engines.
type parallel struct {
	*Simulation
	front frontEnd
	clock timing.Clock
	out   *Outcome
	watch func(*scheduler.Pass)
}

func (s *Simulation) newParallel(model timing.Model, out *Outcome, watch func(*scheduler.Pass)) (*parallel, error) {
	r := &parallel{Simulation: s, clock: timing.Clock{Model: model, Speedup: 1, DecodeSpeedup: 1}, out: out, watch: watch}
	r.front.at = -refresh
	for range s.settings.DataParallel {
		core, err := vllm.New(s.config(model))
		if err != nil {
			return nil, err
		}
		e := &engine{core: core, number: len(r.front.engines)}
		if watch != nil {
			e.pass.Detail = new(scheduler.Detail)
		}
		r.front.engines = append(r.front.engines, e)
	}
	return r, nil
}

// submitArrived submits what has arrived at e by its time.
func (r *parallel) submitArrived(e *engine) {
	n := 0
	for n < len(e.queue) && r.arrivals[e.queue[n]] <= e.now {
		e.core.Submit(&r.requests[e.queue[n]])
		n++
	}
	e.queue = append(e.queue[:0], e.queue[n:]...)
}

// endPass notes the pass of e, which ends at its time.
func (r *parallel) endPass(e *engine) error {
	if err := e.core.End(&e.pass); err != nil {
		return err
	}
	if r.out.record != nil {
		r.out.record.engine = e.number
	}
	r.out.notePass(&e.pass)
	if r.watch != nil {
		r.watch(&e.pass)
	}
	return nil
}

// runLockstep lets all engines begin and end their passes together; each lasts as
// long as one that had the most of everything. Engines without work wait.
func (r *parallel) runLockstep() error {
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
			step, err := e.core.Begin(now, &e.pass)
			if err != nil {
				return err
			}
			widenStep(&most, step)
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
			if err := r.endPass(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// isBusy reports whether an engine has requests.
func (r *parallel) isBusy() bool {
	for _, e := range r.front.engines {
		if e.core.Load() > 0 {
			return true
		}
	}
	return false
}

// widenStep makes most at least step in everything that takes time.
func widenStep(most, step *timing.Step) {
	most.Tokens, most.Requests = max(most.Tokens, step.Tokens), max(most.Requests, step.Requests)
	most.Context, most.Pairs = max(most.Context, step.Context), max(most.Pairs, step.Pairs)
}

// runApart lets every engine run at its own pace.
func (r *parallel) runApart() error {
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
func (r *parallel) runUntil(e *engine, at sim.Time) error {
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
		step, err := e.core.Begin(e.now, &e.pass)
		if err != nil {
			return err
		}
		ms, err := r.clock.Step(step)
		if err != nil {
			return err
		}
		e.now += sim.Time(ms)
		e.pass.End = e.now
		if err := r.endPass(e); err != nil {
			return err
		}
	}
	return nil
}
