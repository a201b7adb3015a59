package calibrate

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// The constants are limits of the descent by the Gauss-Newton method.
const (
	newtonSteps = 20
	newtonTries = 5    // tries of one step; each has more damping
	longest     = 0.7  // largest change of a parameter's logarithm in one step
	worthwhile  = 2e-3 // least reduction of the loss in one step, as a share
)

// newtonFromThree returns the best result of descendNewton from three points: from, and two points with other values
// of the time per token.
func (s *search) newtonFromThree(from point) (best point) {
	for i, change := range []float64{0, 0.7, -0.7} {
		u := slices.Clone(from.u)
		u[tokenField] += change
		p := s.descendNewton(point{u, from.loss})
		if i == 0 || p.loss < best.loss {
			best = p
		}
		if s.isReferences() {
			break
		}
	}
	return best
}

// descendNewton moves a point to a lower loss. descendNewton uses the effect of each parameter while the work of all
// passes stays the same. The effect of a parameter is smooth, but the loss itself is not. A changed schedule enters
// the next step through its new simulation.
func (s *search) descendNewton(from point) point {
	if s.isReferences() { // the reference's model has no recorded passes
		return from
	}
	s.recorded = true
	defer func() { s.recorded = false }()
	at := point{slices.Clone(from.u), s.loss(from.u)}
	damp := 1e-3
	for range newtonSteps {
		if s.err != nil { // no passes are recorded
			break
		}
		hessian, slope := s.computeSlopes(at.u)
		better := false
		for range newtonTries {
			u := dampedStep(at.u, hessian, slope, damp)
			if u == nil {
				break
			}
			if l := s.loss(u); l < at.loss {
				better = at.loss-l > worthwhile*at.loss
				at = point{u, l}
				damp /= 5
				break
			}
			damp *= 6
		}
		if !better {
			break
		}
	}
	return at
}

// computeSlopes returns the second and first derivatives of the loss at u. The most recent simulation must have been
// at u or near u.
func (s *search) computeSlopes(u []float64) (hessian *mat.SymDense, slope []float64) {
	n := len(s.form.Fields)
	hessian, slope = mat.NewSymDense(n, nil), make([]float64, n)
	for _, t := range s.trials {
		s.addSlopes(t, u, hessian, slope)
	}
	centre := s.centreOf(u)
	for a := range n {
		name, from := s.form.Fields[a], centre
		if s.form.isFree(name) {
			from = 0
		}
		weight := s.pullWeight(name)
		hessian.SetSym(a, a, hessian.At(a, a)+weight)
		slope[a] += weight * (u[a] - from)
	}
	return hessian, slope
}

// addSlopes adds the derivatives of the loss of one run.
func (s *search) addSlopes(of *trial, u []float64, hessian *mat.SymDense, slope []float64) {
	p := s.form.parametersAt(&s.start, u)
	n := len(s.form.Fields)
	engines := make([]*effects, len(of.record.engines))
	for i, passes := range of.record.engines {
		engines[i] = newEffects(passes, &p, &s.form)
		engines[i].scaleTime(of.sim.speedAt(i))
	}
	row, t := make([]float64, n), of.target
	for k := range t.measured {
		for j, measured := range t.counterparts(k, t.simulated(k, &of.out)) {
			if math.IsNaN(measured) {
				continue
			}
			shown := t.requestIn(&of.out, j)
			from, to, over := t.metrics[k].span(shown)
			e := engines[of.record.of[t.chosen[j]]]
			begins, ends := e.find(from), e.find(to)
			for a := range row {
				row[a] = (e.at(a, ends) - e.at(a, begins)) / over
			}
			s.form.addWay(row, &of.out.Way, k, shown.Output)
			r := t.residual(k, (to-from)/over+partOfWay(&of.out.Way, k, shown.Output), measured)
			w := 1 / math.Sqrt(1+float64(r*r)) / float64(len(t.chosen)*len(s.trials))
			scale := t.residual(k, 1, measured) - t.residual(k, 0, measured)
			for a := range n {
				slope[a] += w * r * scale * row[a]
				for b := a; b < n; b++ {
					hessian.SetSym(a, b, hessian.At(a, b)+float64(w*scale*scale*row[a]*row[b]))
				}
			}
		}
	}
}

// dampedStep returns the point after one damped step, or nil if there is none.
func dampedStep(u []float64, hessian *mat.SymDense, slope []float64, damp float64) []float64 {
	n := len(u)
	damped := mat.NewSymDense(n, nil)
	damped.CopySym(hessian)
	for a := range n {
		damped.SetSym(a, a, hessian.At(a, a)*(1+damp)+1e-12)
	}
	var c mat.Cholesky
	if !c.Factorize(damped) {
		return nil
	}
	var step mat.VecDense
	if c.SolveVecTo(&step, mat.NewVecDense(n, slices.Clone(slope))) != nil {
		return nil
	}
	short := min(1, longest/max(mat.Norm(&step, math.Inf(1)), 1e-12))
	next := make([]float64, n)
	for a := range n {
		next[a] = u[a] - short*step.AtVec(a)
	}
	return next
}
