package calibrate

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
)

// makeProfile makes the profile from the fit to all requests.
func (r *Result) makeProfile(ctx context.Context, sims []*Simulation, runs []*Measured, f *fitted, all []training) error {
	sims = all[0].atPaces(sims)
	var seen []pass
	engine := runs[0].Settings.Engine
	r.Profile = timing.Profile{
		Form: f.form.Name, Version: timing.ProfileVersion, Source: "fitted to " + r.Run, Parameters: f.parameters, Engine: &engine, Warmup: r.Profile.Warmup, Slow: r.Profile.Slow, Unheard: r.Profile.Unheard,
	}
	var trials []*trial
	_, targets := targetsOf(sims, runs, all[0].on)
	for i, m := range runs {
		t := &trial{sim: sims[i], target: targets[i], out: Outcome{Way: f.way}}
		last := 0.0
		for i := len(m.Requests) - 1; i >= 0 && last == 0; i-- { // the last request that was not cut off
			if at := m.Requests[i].Last; !math.IsNaN(at) {
				last = 1000 * at
			}
		}
		err := sims[i].Run(&f.parameters, &t.out, func(p *scheduler.Pass) {
			if float64(p.End) <= last && !(sims[i].warmup.Given() && p.End-p.Start >= sims[i].warmup.Time) {
				seen = append(seen, readPass(p, m.Settings.BlockTokens))
			}
		})
		if err != nil {
			return err
		}
		trials = append(trials, t)
	}
	if err := r.addKinds(trials, f); err != nil {
		return err
	}
	r.Profile.Trusted = trustedRange(seen)
	r.Profile.Trusted.Preempted = r.Preemptions > 0
	if trials[0].target.run.Client {
		way := f.way
		measureSpread(&way, trials)
		r.Profile.Way = &way
	}
	r.noteSpreads(trials)
	var err error
	r.Profile.Spreads, err = computeSpreads(ctx, trials, f)
	return err
}

// addKinds adds the share of each kind of passes under the fit. The rules of the reference have no kinds.
func (r *Result) addKinds(trials []*trial, f *fitted) error {
	if trials[0].sim.rules.Reference() {
		return nil
	}
	var records []*ledger
	for _, t := range trials {
		if err := t.sim.runRecorded(&f.parameters, &t.out, &t.record); err != nil {
			return err
		}
		records = append(records, &t.record)
	}
	r.Kinds = sharesOfKinds(&f.parameters, records)
	return nil
}

const (
	// nudge is the relative change of a parameter for the measurement of its effect. nudge is large enough to move
	// requests by whole passes.
	nudge = 0.02
	// blockRequests is the number of consecutive requests that count as one observation, because they share passes.
	blockRequests = 30
)

// computeSpreads returns the uncertainty of each parameter. The uncertainty is the standard deviation that follows
// from the scatter of the residuals of blocks of requests. If fits to parts of the runs differ by more, the
// uncertainty is the standard deviation of these fits.
func computeSpreads(ctx context.Context, trials []*trial, f *fitted) ([]timing.Spread, error) {
	centre, err := computeResiduals(trials, f, f.u)
	if err != nil {
		return nil, err
	}
	columns, err := effectsAt(f.u, nudge, func(u []float64) ([]float64, error) { return computeResiduals(trials, f, u) })
	if err != nil {
		return nil, err
	}
	all := sandwichSpreads(f.form, columns, centre, len(centre)/len(allMetrics()))
	apart, err := refitParts(ctx, trials, f)
	for i := range apart {
		all[i].Share = max(all[i].Share, apart[i])
	}
	return all, err
}

// partsOfRuns is the total number of parts of all runs. The parts are fitted separately to find the differences
// between these fits.
const partsOfRuns = 4

// piecesOf returns the number of pieces of one run when there are several runs. Each piece has enough requests for a
// fit.
func piecesOf(t *trial, runs int) int {
	return max(min(partsOfRuns/runs, len(t.target.chosen)/measured.Fewest), 1)
}

// noteSpreads adds a note about the limits of the spreads of a fit to a single run.
func (r *Result) noteSpreads(trials []*trial) {
	if len(trials) > 1 || trials[0].sim.rules.Reference() {
		return
	}
	how := "between fits to parts of one run"
	if piecesOf(trials[0], 1) < 2 {
		how = fmt.Sprintf("that of residuals alone, as the run has no two parts of %d requests", measured.Fewest)
	}
	r.Notes = append(r.Notes, "the spread of parameters is "+how+": at other loads they may differ by more")
}

// refitParts returns the standard deviations of the logarithms of parameters between fits to pieces of runs. In these
// fits, parameters that a piece does not determine are not drawn to the data sheets.
func refitParts(ctx context.Context, trials []*trial, f *fitted) ([]float64, error) {
	if trials[0].sim.rules.Reference() { // the descent by Newton's method does not support these rules
		return nil, nil
	}
	found := make([][]float64, len(f.u))
	for _, t := range trials {
		each := piecesOf(t, len(trials))
		for piece := range each {
			all := t.target.chosen
			chosen := all[piece*len(all)/each : (piece+1)*len(all)/each]
			if len(chosen) < measured.Fewest {
				continue
			}
			s := newSearch(ctx, []*Simulation{t.sim}, []*target{newTarget(t.target.run, chosen)})
			s.form, s.free = f.form, true
			to := s.descendNewton(point{u: f.u})
			if s.err != nil {
				return nil, s.err
			}
			for a, u := range to.u {
				found[a] = append(found[a], u)
			}
		}
	}
	shares := make([]float64, len(found))
	for a, values := range found {
		mean, sum := measured.MeanOf(values), 0.0
		for _, v := range values {
			sum += squareOf(v - mean)
		}
		if n := len(values); n > 1 {
			shares[a] = min(math.Sqrt(sum/float64(n-1)), 1)
		}
	}
	return shares, nil
}

// computeResiduals returns the residuals at u. The residuals are ordered by metric, and each metric has all chosen
// requests.
func computeResiduals(trials []*trial, f *fitted, u []float64) ([]float64, error) {
	p, way := f.form.parametersAt(&f.start, u), f.form.frontEndAt(u)
	outs := make([]Outcome, len(trials))
	for i, t := range trials {
		outs[i].Way = way
		if err := t.sim.Run(&p, &outs[i], nil); err != nil {
			return nil, err
		}
	}
	var all []float64
	for k := range allMetrics() {
		for i, t := range trials {
			simulated := t.target.simulated(k, &outs[i])
			held := t.target.counterparts(k, simulated)
			for j, s := range simulated {
				r := 0.0
				if x := held[j]; !math.IsNaN(x) {
					r = t.target.residual(k, s, x)
				}
				all = append(all, r)
			}
		}
	}
	return all, nil
}

// sandwichSpreads returns the spreads of the parameters by the robust (sandwich) covariance. The robust covariance
// follows from the effect of each parameter on the residuals, with one residual per request and metric.
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
