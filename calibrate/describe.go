package calibrate

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
)

// makeProfile makes the profile of the fit to all requests.
func (r *Result) makeProfile(sim *Simulation, m *Measured, f *fitted) error {
	var out Outcome
	var seen []pass
	last := 1000 * m.Requests[len(m.Requests)-1].Last
	err := sim.Run(&f.parameters, &out, func(p *scheduler.Pass) {
		if float64(p.End) <= last {
			seen = append(seen, readPass(p, m.Settings.BlockTokens))
		}
	})
	if err != nil {
		return err
	}
	engine := m.Settings.Engine
	r.Profile = timing.Profile{
		Form: f.form.Name, Version: timing.ProfileVersion, Source: "fitted to " + m.Name,
		Parameters: f.parameters, Engine: &engine, Trusted: trustedRange(seen),
	}
	r.Profile.Trusted.Preempted = out.Preemptions > 0
	r.Profile.Spreads, err = computeSpreads(sim, m, f)
	return err
}

const (
	// nudge is the relative change of a parameter that shows its effect, wide
	// enough that requests move by whole passes.
	nudge = 0.02
	// blockRequests is the number of requests in a row that count as one
	// observation: they share passes.
	blockRequests = 30
)

// computeSpreads returns how well each parameter is known: the standard deviation
// that the scatter of the residuals gives it, by blocks of requests.
func computeSpreads(sim *Simulation, m *Measured, f *fitted) ([]timing.Spread, error) {
	all, _ := splitParts(m, 0)
	t := newTarget(m, all[0].withoutWarmUp(m))
	centre, err := computeResiduals(sim, t, f, f.u)
	if err != nil {
		return nil, err
	}
	columns, err := effectsAt(f.u, nudge, func(u []float64) ([]float64, error) { return computeResiduals(sim, t, f, u) })
	if err != nil {
		return nil, err
	}
	return sandwichSpreads(f.form, columns, centre, len(t.chosen)), nil
}

// computeResiduals returns the residuals at a point, metric by metric and in
// each for all chosen requests.
func computeResiduals(sim *Simulation, t *target, f *fitted, u []float64) ([]float64, error) {
	p := f.form.parametersAt(&f.start, u)
	var out Outcome
	if err := sim.Run(&p, &out, nil); err != nil {
		return nil, err
	}
	var all []float64
	for k := range t.measured {
		for j, s := range t.simulated(k, &out) {
			r := 0.0
			if x := t.measured[k][j]; !math.IsNaN(x) {
				r = t.residual(k, s, x)
			}
			all = append(all, r)
		}
	}
	return all, nil
}

// sandwichSpreads returns the robust covariance of the parameters from the
// effect of each on the residuals, of which each request has one per metric.
func sandwichSpreads(form Form, columns [][]float64, residuals []float64, requests int) []timing.Spread {
	n := len(columns)
	bread, meat := mat.NewSymDense(n, nil), mat.NewSymDense(n, nil)
	for from := 0; from < requests; from += blockRequests {
		g := make([]float64, n)
		for k := range allMetrics() {
			for j := k*requests + from; j < k*requests+min(from+blockRequests, requests); j++ {
				w := 1 / math.Sqrt(1+squareOf(residuals[j]))
				for a := range n {
					g[a] += columns[a][j] * w * residuals[j]
					for b := a; b < n; b++ {
						bread.SetSym(a, b, bread.At(a, b)+columns[a][j]*w*columns[b][j])
					}
				}
			}
		}
		meat.SymRankOne(meat, 1, mat.NewVecDense(n, g))
	}
	for a := range n {
		bread.SetSym(a, a, bread.At(a, a)+spreadWeight*float64(requests))
	}
	var inverse, half, cov mat.Dense
	all := make([]timing.Spread, n)
	if err := inverse.Inverse(bread); err != nil {
		for i, name := range form.Fields {
			all[i] = timing.Spread{Name: name, Share: 1}
		}
		return all
	}
	half.Mul(&inverse, meat)
	cov.Mul(&half, &inverse)
	for i, name := range form.Fields {
		all[i] = timing.Spread{Name: name, Share: math.Sqrt(max(cov.At(i, i), 0))}
	}
	return all
}
