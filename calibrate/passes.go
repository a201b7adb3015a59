package calibrate

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
)

// ledger records the work of the passes of a run by engine, and the engine of each request. The records of a ledger
// show how the times of requests change with the times of passes, if the work of every pass stays the same.
type ledger struct {
	engines [][]stretch
	of      []int // engine of each request
	engine  int   // engine of the pass that is recorded next
	step    timing.Step
	noted   bool // step belongs to a pass that is already recorded
	merges  bool // equal passes are kept as one stretch with their mean work
}

// stretch is one pass, or several equal passes in a row.
type stretch struct {
	start, end float64 // s
	step       timing.Step
	count      int // number of passes; 0 counts as 1
}

func (r *ledger) reset(engines, requests int) {
	for i := range r.engines {
		r.engines[i] = r.engines[i][:0]
	}
	for len(r.engines) < engines {
		r.engines = append(r.engines, nil)
	}
	r.of = append(r.of[:0], make([]int, requests)...)
	r.engine, r.noted = 0, true
}

// notePass adds a pass, or several equal passes in a row. The first of these passes computes step.
func (r *ledger) notePass(p *scheduler.Pass) {
	step, all := r.step, r.engines[r.engine]
	if r.merges && p.Count > 1 {
		step.Grow((p.Count - 1) / 2)
		r.engines[r.engine], r.noted = append(all, stretch{float64(p.Start) / 1000, float64(p.End) / 1000, step, p.Count}), true
		return
	}
	for i := range p.Count {
		end := p.End
		if i+1 < p.Count {
			end = p.Begins(i + 1)
		}
		all = append(all, stretch{float64(p.Begins(i)) / 1000, float64(end) / 1000, step, 1})
		step.Grow(1)
	}
	r.engines[r.engine], r.noted = all, true
	for _, a := range p.Admitted {
		r.of[a.Request] = r.engine
	}
}

// recorder is a model that stores the first step that it receives after each recorded pass.
type recorder struct {
	timing.Stepper
	timing.Model
	record *ledger
}

// Step returns the time of a pass.
func (r *recorder) Step(s *timing.Step) float64 {
	if r.record.noted {
		r.record.step, r.record.noted = *s, false
	}
	return r.Stepper.Step(s)
}

// effects holds, for one engine, the effect of each parameter on the durations of passes. The effects are summed up
// to each pass.
type effects struct {
	passes []stretch
	upTo   [][]float64 // by parameter: sums before each pass and after the last one
}

// newEffects returns the effects of the form's parameters on passes. The effects are derivatives by the logarithms of
// the parameters.
func newEffects(passes []stretch, p *timing.Parameters, form *Form) *effects {
	const factor = 1e-4
	e := &effects{passes: passes, upTo: make([][]float64, len(form.Fields))}
	lasts := make([]float64, len(passes))
	for k := range passes {
		lasts[k] = p.Step(&passes[k].step)
	}
	for i, name := range form.Fields {
		other := *p
		sums := make([]float64, len(passes)+1)
		if e.upTo[i] = sums; isOfFrontEnd(name) {
			continue
		}
		form.scaleParameter(&other, name, 1+factor)
		for k := range passes {
			sums[k+1] = sums[k] + float64(max(passes[k].count, 1))*((other.Step(&passes[k].step)-lasts[k])/(1000*factor))
		}
	}
	return e
}

// place is the position of an instant among passes: before pass k, or during it, when a part of the pass is over.
type place struct {
	k             int
	over, lasting float64 // s; 0: the instant is before the pass
}

// find returns the position of an instant.
func (e *effects) find(instant float64) place {
	k, _ := slices.BinarySearchFunc(e.passes, instant, func(p stretch, t float64) int {
		if p.end <= t {
			return -1
		}
		return 1
	})
	if k < len(e.passes) && instant > e.passes[k].start {
		p := &e.passes[k]
		return place{k, instant - p.start, p.end - p.start}
	}
	return place{k: k}
}

// at returns the effect of parameter i on all computation before a position.
func (e *effects) at(i int, p place) float64 {
	sum := e.upTo[i][p.k]
	if p.over > 0 {
		sum += (e.upTo[i][p.k+1] - sum) * p.over / p.lasting
	}
	return sum
}
