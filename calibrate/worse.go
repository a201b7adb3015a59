package calibrate

import (
	"context"
	"fmt"
	"math"
)

// worseBy and worseByHeldOut bound the errors of a fit relative to the errors of its start, on fitted and on held-out
// requests. The errors are averages of the logarithms of ratios of means.
const (
	worseBy        = 0.05
	worseByHeldOut = 0.2
)

// WorseError reports a fit with larger errors than the start of its search.
type WorseError struct {
	Fitted, Judged, Metric string
	Off, Start             float64 // relative errors of the mean
}

func (e *WorseError) Error() string {
	return fmt.Sprintf("the fit to %s is worse than its start: mean %s on %s is %+.1f %% off, and %+.1f %% by the data sheets at the scale of the run: other or more requests are required, or --warmup",
		e.Fitted, e.Metric, e.Judged, 100*e.Off, 100*e.Start)
}

// checkStart returns an error if a fit has larger errors than the start of its search. The start is the parameters of
// the data sheets, scaled by one factor to the fitted runs.
func (f *fitted) checkStart(ctx context.Context, sims []*Simulation, runs []*Measured, t *training, checks []Check) error {
	paced := t.atPaces(sims)
	seen, targets := targetsOf(paced, runs, t.on)
	s := newSearch(ctx, seen, targets)
	s.form, s.start = f.form, f.start
	at := s.scaleStart()
	if s.err != nil {
		return s.err
	}
	p, way := s.form.parametersAt(&s.start, at.u), s.form.frontEndAt(at.u)
	outs := make([]*Outcome, len(runs))
	for i := range checks {
		c := &checks[i]
		if c.chosen == nil || c.Known != "" {
			continue
		}
		if outs[c.run] == nil {
			outs[c.run] = &Outcome{Way: way}
			if err := paced[c.run].Run(&p, outs[c.run], nil); err != nil {
				return err
			}
		}
		began := judgeOutcome(runs[c.run], c.chosen, outs[c.run])
		most := worseBy
		if c.HeldOut {
			most = worseByHeldOut
		}
		if distanceOfMeans(c.Errors) <= distanceOfMeans(began)+most {
			continue
		}
		k := furthestOf(c.Errors)
		return &WorseError{Fitted: c.Fitted, Judged: c.Judged, Metric: c.Errors[k].Metric, Off: c.Errors[k].Mean, Start: began[k].Mean}
	}
	return nil
}

// offOf returns the size of the error of a mean. Twice the value and half the value have errors of the same size.
func offOf(e *Errors) float64 { return math.Abs(math.Log1p(e.Mean)) }

// distanceOfMeans returns the mean error of the means of all measured metrics.
func distanceOfMeans(all []Errors) float64 {
	sum, n := 0.0, 0.0
	for i := range all {
		if off := offOf(&all[i]); !math.IsNaN(off) {
			sum, n = sum+off, n+1
		}
	}
	return sum / max(n, 1)
}

// furthestOf returns the metric with the largest error of its mean.
func furthestOf(all []Errors) (k int) {
	for i := range all {
		if offOf(&all[i]) > offOf(&all[k]) || math.IsNaN(all[k].Mean) {
			k = i
		}
	}
	return k
}
