package calibrate

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
)

// ledger is what the passes of a run computed, by engine, and which engine had
// which request: it gives how the times of requests change with those
// of passes, as long as every pass computes the same.
type ledger struct {
	engines [][]stretch
	of      []int // engine of each request
	engine  int   // whose pass is being noted
	step    timing.Step
}

// stretch is a pass.
type stretch struct {
	start, end float64 // s
	step       timing.Step
}

func (r *ledger) reset(engines, requests int) {
	for i := range r.engines {
		r.engines[i] = r.engines[i][:0]
	}
	for len(r.engines) < engines {
		r.engines = append(r.engines, nil)
	}
	r.of = append(r.of[:0], make([]int, requests)...)
	r.engine = 0
}

// notePass adds the pass that the last step was asked for.
func (r *ledger) notePass(p *scheduler.Pass) {
	r.engines[r.engine] = append(r.engines[r.engine], stretch{float64(p.Start) / 1000, float64(p.End) / 1000, r.step})
	for _, a := range p.Admitted {
		r.of[a.Request] = r.engine
	}
}

// recorder is a model that remembers the last pass it was asked about.
type recorder struct {
	timing.Stepper
	timing.Model
	record *ledger
}

// Step returns the time of a pass.
func (r *recorder) Step(s *timing.Step) float64 {
	r.record.step = *s
	return r.Stepper.Step(s)
}

// effects are the sums, up to instants, of how the durations of one engine's
// passes change with each parameter.
type effects struct {
	passes []stretch
	upTo   [][]float64 // by parameter, before each pass and after the last
}

// newEffects returns what changes of the parameters by a small factor do to each
// pass.
func newEffects(passes []stretch, p *timing.Parameters, fields []string) *effects {
	const factor = 1e-4
	e := &effects{passes: passes, upTo: make([][]float64, len(fields))}
	for i, name := range fields {
		other := *p
		*parameterOf(&other, name) *= 1 + factor
		sums := make([]float64, len(passes)+1)
		for k := range passes {
			s := &passes[k].step
			sums[k+1] = sums[k] + (other.Step(s)-p.Step(s))/(1000*factor)
		}
		e.upTo[i] = sums
	}
	return e
}

// at returns the effect of parameter i on all that was computed before an
// instant; of a pass that is under way then the part that is over counts.
func (e *effects) at(i int, instant float64) float64 {
	k, _ := slices.BinarySearchFunc(e.passes, instant, func(p stretch, t float64) int {
		if p.end <= t {
			return -1
		}
		return 1
	})
	sum := e.upTo[i][k]
	if k < len(e.passes) && instant > e.passes[k].start {
		p := &e.passes[k]
		sum += (e.upTo[i][k+1] - sum) * (instant - p.start) / (p.end - p.start)
	}
	return sum
}
