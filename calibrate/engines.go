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
	told   load // what the front end believes
	recent load // what it told last
}

// load is what an engine tells of itself.
type load struct{ waiting, running int }

// refresh is how often the front end is told of the engines, in ms.
const refresh = 100

// front spreads requests over engines as the front end of vLLM does: to the
// least of 4·waiting + running, by what the engines told at most refresh ago, and
// what was sent since counts as waiting.
type front struct {
	engines []*engine
	at      sim.Time // of the last refresh
}

// send hands in a request that arrives at the given time.
func (f *front) send(request int, at sim.Time) {
	if at-f.at >= refresh {
		f.at = at
		for _, e := range f.engines {
			e.told = e.recent
		}
	}
	best := f.engines[0]
	for _, e := range f.engines[1:] {
		if 4*e.told.waiting+e.told.running < 4*best.told.waiting+best.told.running {
			best = e
		}
	}
	best.told.waiting++
	best.queue = append(best.queue, request)
}

// tell lets e say how it is.
func (e *engine) tell() { e.recent.waiting, e.recent.running = e.core.Line() }

// parallel is a run of several engines.
type parallel struct {
	*Simulation
	front front
	clock timing.Clock
	out   *Outcome
	watch func(*scheduler.Pass)
}

func (s *Simulation) parallel(model timing.Model, out *Outcome, watch func(*scheduler.Pass)) (*parallel, error) {
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

// take submits what has arrived at e by its time.
func (r *parallel) take(e *engine) {
	n := 0
	for n < len(e.queue) && r.arrivals[e.queue[n]] <= e.now {
		e.core.Submit(&r.requests[e.queue[n]])
		n++
	}
	e.queue = append(e.queue[:0], e.queue[n:]...)
}

// ended notes the pass of e, which ends at its time.
func (r *parallel) ended(e *engine) error {
	if err := e.core.End(&e.pass); err != nil {
		return err
	}
	if r.out.record != nil {
		r.out.record.engine = e.number
	}
	r.out.note(&e.pass)
	if r.watch != nil {
		r.watch(&e.pass)
	}
	return nil
}

// lockstep lets all engines begin and end their passes together; each lasts as
// long as one that had the most of everything. Engines without work wait.
func (r *parallel) lockstep() error {
	now := sim.Time(0)
	for next := 0; next < len(r.requests) || r.busy(); {
		if !r.busy() {
			now = max(now, r.arrivals[next])
		}
		for ; next < len(r.requests) && r.arrivals[next] <= now; next++ {
			r.front.send(next, r.arrivals[next])
		}
		var most timing.Step
		for _, e := range r.front.engines {
			e.now = now
			r.take(e)
			e.tell()
			if e.begun = e.core.Load() > 0; !e.begun {
				continue
			}
			step, err := e.core.Begin(now, &e.pass)
			if err != nil {
				return err
			}
			widen(&most, step)
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
			if err := r.ended(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// busy reports whether an engine has requests.
func (r *parallel) busy() bool {
	for _, e := range r.front.engines {
		if e.core.Load() > 0 {
			return true
		}
	}
	return false
}

// widen makes most at least step in everything that takes time.
func widen(most, step *timing.Step) {
	most.Tokens, most.Requests = max(most.Tokens, step.Tokens), max(most.Requests, step.Requests)
	most.Context, most.Pairs = max(most.Context, step.Context), max(most.Pairs, step.Pairs)
}

// apart lets every engine run at its own pace.
func (r *parallel) apart() error {
	for next, at := range r.arrivals {
		for _, e := range r.front.engines {
			if err := r.until(e, at); err != nil {
				return err
			}
		}
		r.front.send(next, at)
	}
	for _, e := range r.front.engines {
		if err := r.until(e, sim.Time(1e300)); err != nil {
			return err
		}
	}
	return nil
}

// until runs the passes of e that begin before an instant.
func (r *parallel) until(e *engine, at sim.Time) error {
	for e.now < at {
		r.take(e)
		if e.core.Load() == 0 {
			if len(e.queue) == 0 {
				e.tell()
				return nil
			}
			e.now = r.arrivals[e.queue[0]]
			continue
		}
		e.tell()
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
		if err := r.ended(e); err != nil {
			return err
		}
	}
	return nil
}
