package calibrate

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// Limits of a polish.
const (
	polishSteps = 8
	// polishCost is the share by which the loss of single requests may rise for the
	// sake of means: what a form cannot follow is not forced on it.
	polishCost = 0.4
	goodMean   = 2e-4  // error of means that is as good as none
	polishEdge = 0.004 // change of a parameter's logarithm that shows its effect on means
)

// polishMeans moves a point to where the means are those that were measured, on
// the way that costs the loss of single requests least. The effects on means
// come from simulations: what a change does to the schedule is part of them.
func (s *search) polishMeans(from point) (point, error) {
	if s.sim.rules.Reference() { // as in newton
		return from, s.err
	}
	weight := s.target.weight
	s.target.weight = 0
	s.record = new(ledger)
	defer func() { s.target.weight, s.record = weight, nil }()
	at := point{from.u, s.loss(from.u)}
	limit, miss := at.loss*(1+polishCost), s.target.misses(&s.out, s.space)
	for range polishSteps {
		hessian, _ := s.computeSlopes(at.u)
		step := cheapestStep(hessian, s.meanEffects(at.u), miss)
		if step == nil || normOf(miss) < goodMean {
			break
		}
		moved := false
		for share := 1.0; share > 0.05 && !moved; share /= 2 {
			u := make([]float64, len(step))
			for a := range u {
				u[a] = at.u[a] - share*step[a]
			}
			loss := s.loss(u)
			if m := s.target.misses(&s.out, s.space); loss < limit && normOf(m) < normOf(miss) {
				at, miss, moved = point{u, loss}, m, true
			}
		}
		if !moved {
			break
		}
	}
	return at, s.err
}

// meanEffects returns how the means change with each parameter, by metric.
func (s *search) meanEffects(u []float64) *mat.Dense {
	record := s.record
	s.record = nil
	defer func() { s.record = record }()
	effects := mat.NewDense(3, len(u), nil)
	for a := range u {
		var side [2][3]float64
		for i, change := range []float64{polishEdge, -polishEdge} {
			other := append([]float64(nil), u...)
			other[a] += change
			s.loss(other)
			side[i] = s.target.misses(&s.out, s.space)
		}
		for k := range side[0] {
			effects.Set(k, a, (side[0][k]-side[1][k])/(2*polishEdge))
		}
	}
	return effects
}

// cheapestStep returns the step, of all whose effects are miss, that is
// shortest by the curvature of a loss; nil when there is none.
func cheapestStep(curvature *mat.SymDense, effects *mat.Dense, miss [3]float64) []float64 {
	n := curvature.SymmetricDim()
	for a := range n {
		curvature.SetSym(a, a, curvature.At(a, a)*1.001+1e-9)
	}
	var c mat.Cholesky
	if !c.Factorize(curvature) {
		return nil
	}
	var way, among mat.Dense
	if err := c.SolveTo(&way, effects.T()); err != nil {
		return nil
	}
	among.Mul(effects, &way)
	// The means of the three metrics nearly follow from each other: what little is
	// left between them is not worth a long way.
	for k := range miss {
		among.Set(k, k, 1.01*among.At(k, k)+1e-12)
	}
	var shares, step mat.VecDense
	if err := shares.SolveVec(&among, mat.NewVecDense(len(miss), miss[:])); err != nil {
		return nil
	}
	step.MulVec(&way, &shares)
	all := make([]float64, n)
	for a := range all {
		all[a] = step.AtVec(a)
		if math.IsNaN(all[a]) || math.Abs(all[a]) > longest {
			return nil
		}
	}
	return all
}

// normOf returns the root of the sum of squares.
func normOf(v [3]float64) float64 { return math.Sqrt(squareOf(v[0]) + squareOf(v[1]) + squareOf(v[2])) }
