package calibrate

import (
	"cmp"
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/optimize"

	"github.com/replay-llm/replay/scheduler/timing"
)

// point is a place in the space of a form's parameters: logarithms of their
// ratio to the start.
type point struct {
	u    []float64
	loss float64
}

// candidate is a point in the space of a form.
type candidate struct {
	point
	form Form
}

// fitted is the outcome of a search.
type fitted struct {
	candidate
	parameters timing.Parameters
	start      timing.Parameters
	runs       int // simulations
}

// search is the hunt for the parameters of one form on one target.
type search struct {
	ctx    context.Context
	sim    *Simulation
	target *target
	form   Form
	start  timing.Parameters

	out    Outcome
	record *ledger // nil: what passes compute is not remembered
	runs   int     // simulations so far
	err    error   // of the first that failed
}

// spreadWeight draws parameters that the run does not determine to the start.
const spreadWeight = 0.001

// loss returns the loss of the simulation at u.
func (s *search) loss(u []float64) float64 {
	pull := 0.0
	for _, x := range u {
		if math.Abs(x) > 5 {
			return math.MaxFloat64
		}
		pull += float64(spreadWeight * squareOf(x))
	}
	if s.err == nil {
		s.err = s.ctx.Err()
	}
	if s.err != nil {
		return math.MaxFloat64
	}
	p := s.form.parametersAt(&s.start, u)
	s.runs++
	if s.err = s.sim.runRecorded(&p, &s.out, s.record); s.err != nil {
		return math.MaxFloat64
	}
	return s.target.loss(&s.out) + pull
}

// descendSimplex moves a simplex with edges of the given length from a point, and
// returns the best it finds within a number of simulations.
func (s *search) descendSimplex(from point, edge float64, runs int) point {
	if s.err != nil {
		return from
	}
	settings := &optimize.Settings{
		InitValues: &optimize.Location{F: from.loss}, FuncEvaluations: runs - 1, Converger: optimize.NeverTerminate{},
	}
	r, err := optimize.Minimize(optimize.Problem{Func: s.loss}, from.u, settings, &optimize.NelderMead{SimplexSize: edge})
	s.err = cmp.Or(s.err, err)
	if s.err == nil && r.F < from.loss {
		return point{slices.Clone(r.X), r.F}
	}
	return from
}

// scaleStart multiplies all parameters alike until requests take as long per
// token as they did, so that what was measured on another scale is no worse a
// start.
func (s *search) scaleStart() point {
	u := make([]float64, len(s.form.Fields))
	for range 6 {
		p := s.form.parametersAt(&s.start, u)
		s.runs++
		if s.err = cmp.Or(s.err, s.sim.Run(&p, &s.out, nil)); s.err != nil {
			break
		}
		ratio := 0.0
		for k := range s.target.measured {
			ratio += math.Log(s.target.mean[k] / meanOf(s.target.simulated(k, &s.out)))
		}
		ratio /= 3
		if math.Abs(ratio) < 0.01 {
			break
		}
		for i := range u {
			u[i] += 0.8 * ratio
		}
	}
	return point{u, s.loss(u)}
}

// How many simulations the stages of a search take, and the edges of their
// simplexes.
const (
	wideEdge, wideRuns = 0.2, 40
	fineEdge, fineRuns = 0.1, 120
	lastEdge, lastRuns = 0.03, 100
	moreRuns           = 30
	// worth is by how much a further parameter must lower the loss to be kept.
	worth = 0.15
	// hopeless is how many times the least loss a form has that further parameters do
	// not make the best.
	hopeless = 1.5
)

// fitTarget finds the parameters with which the simulated requests come out
// most like the chosen measured ones: for each form by the effects of its
// parameters, from the best of them by trial, and at last the means by
// themselves.
func fitTarget(ctx context.Context, sim *Simulation, t *target) (fitted, error) {
	s := &search{ctx: ctx, sim: sim, target: t, start: startParameters(&sim.settings)}
	best := s.findCandidate()
	s.form = best.form
	for _, stage := range []struct {
		edge   float64
		runs   int
		weight float64
	}{{fineEdge, fineRuns, meanWeight}, {lastEdge, lastRuns, lastWeight}} {
		t.weight = stage.weight
		best.loss = s.loss(best.u)
		best.point = s.descendSimplex(best.point, stage.edge, stage.runs)
	}
	best.point = s.polishMeans(best.point)
	return fitted{best, s.form.parametersAt(&s.start, best.u), s.start, s.runs}, s.err
}

// findCandidate returns the best of all forms. A form with more parameters has
// to be clearly better than one with fewer.
func (s *search) findCandidate() candidate {
	var plain []candidate
	for _, f := range plainForms() {
		s.form = f
		p := s.newtonFromThree(s.scaleStart())
		plain = append(plain, candidate{s.descendSimplex(p, wideEdge, wideRuns), f})
	}
	best := leastLoss(plain)
	for more := plain; ; more = []candidate{best} {
		var wider []candidate
		for _, c := range more {
			if c.loss > hopeless*best.loss && !s.sim.rules.Reference() {
				continue
			}
			for _, f := range c.form.extensions() {
				s.form = f
				wider = append(wider, candidate{s.descendNewton(point{u: append(slices.Clone(c.u), 0)}), f})
			}
		}
		if len(wider) == 0 || s.err != nil || leastLoss(wider).loss >= (1-worth)*best.loss {
			return best
		}
		best = leastLoss(wider)
		s.form = best.form
		best.point = s.descendSimplex(best.point, fineEdge, moreRuns)
	}
}

// leastLoss returns the candidate of the least loss, the first of several.
func leastLoss(all []candidate) candidate {
	return slices.MinFunc(all, func(a, b candidate) int { return cmp.Compare(a.loss, b.loss) })
}
