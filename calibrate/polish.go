package calibrate

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// The constants are limits of polishMeans.
const (
	polishSteps = 8
	// polishCost is the largest relative increase of the loss of single requests for smaller errors of means.
	polishCost = 0.4
	goodMean   = 2e-4  // largest error of means that needs no correction
	polishEdge = 0.004 // change of a parameter's logarithm for the measurement of its effect on means
)

// polishMeans moves a point such that the means match the measured ones. The direction costs the least in the loss of
// single requests. The effects on means come from simulations and include changes of the schedule.
func (s *search) polishMeans(from point) point {
	if s.isReferences() { // as in descendNewton
		return from
	}
	weight := s.trials[0].target.weight
	s.setWeight(0)
	s.recorded = true
	defer func() { s.setWeight(weight); s.recorded = false }()
	at := point{from.u, s.loss(from.u)}
	limit, miss := at.loss*(1+polishCost), s.misses()
	for range polishSteps {
		if s.err != nil { // no passes are recorded
			break
		}
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
			if m := s.misses(); loss < limit && normOf(m) < normOf(miss) {
				at, miss, moved = point{u, loss}, m, true
			}
		}
		if !moved {
			break
		}
	}
	return at
}

// meanEffects returns the effect of each parameter on the means, by metric.
func (s *search) meanEffects(u []float64) *mat.Dense {
	s.recorded = false
	defer func() { s.recorded = true }()
	columns, _ := effectsAt(u, polishEdge, func(u []float64) ([]float64, error) { // s keeps the error
		s.loss(u)
		return s.misses(), nil
	})
	effects := mat.NewDense(len(s.misses()), len(u), nil)
	for a, column := range columns {
		effects.SetCol(a, column)
	}
	return effects
}

// effectsAt returns the effect of each parameter on values at u. effectsAt compares the values above and below u by
// edge.
func effectsAt(u []float64, edge float64, values func(u []float64) ([]float64, error)) ([][]float64, error) {
	columns := make([][]float64, len(u))
	for a := range u {
		var side [2][]float64
		for i, change := range []float64{edge, -edge} {
			other := slices.Clone(u)
			other[a] += change
			var err error
			if side[i], err = values(other); err != nil {
				return nil, err
			}
		}
		for j := range side[0] {
			columns[a] = append(columns[a], (side[0][j]-side[1][j])/(2*edge))
		}
	}
	return columns, nil
}

// cheapestStep returns the step with the effects miss that costs least by the curvature of a loss, or nil if there is
// none.
func cheapestStep(curvature *mat.SymDense, effects *mat.Dense, miss []float64) []float64 {
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
	// The means of the three metrics depend almost completely on each other. A small remaining difference does not
	// justify a large change.
	for k := range miss {
		among.Set(k, k, 1.01*among.At(k, k)+1e-12)
	}
	var shares, step mat.VecDense
	if err := shares.SolveVec(&among, mat.NewVecDense(len(miss), miss)); err != nil {
		return nil
	}
	step.MulVec(&way, &shares)
	if !(mat.Norm(&step, math.Inf(1)) <= longest) {
		return nil
	}
	return step.RawVector().Data
}

// normOf returns the Euclidean norm.
func normOf(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += squareOf(x)
	}
	return math.Sqrt(sum)
}
