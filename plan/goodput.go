package plan

import (
	"context"
	"math"
)

// ladder defines the loads that a search for the highest load tries.
type ladder struct {
	precision float64 // relative, at which it ends
	steps     int     // maximum number of steps until one load is met and one is missed
	// reach returns the loads of the step after last, upwards or downwards.
	reach func(last float64, up bool, step int) []float64
	// between returns the loads, in order, that narrow the gap between a met and a missed load.
	between func(met, missed float64) []float64
}

// mostDoublings is the maximum distance of the highest load from the workload's load, in doublings and halvings.
const mostDoublings = 12

// wideLadder tries several loads at once, for a search that may use all cores. wideLadder doubles or halves the load,
// then tries three loads in equal ratios.
func wideLadder(precision float64) ladder {
	return ladder{
		precision: precision, steps: mostDoublings / 2,
		reach: func(last float64, up bool, _ int) []float64 {
			if up {
				return []float64{last * 2, last * 4}
			}
			return []float64{last / 2, last / 4}
		},
		between: func(met, missed float64) []float64 {
			half := math.Sqrt(missed / met)
			if half <= 1+precision { // the middle load suffices
				return []float64{met * half}
			}
			step := math.Sqrt(half)
			return []float64{met * step, float64(met*step) * step, missed / step}
		},
	}
}

// firstReach is the first step of reach. Each further step is the square of the previous step.
const (
	firstReach = 1.25
	mostReach  = 6
)

// nearLadder tries one load at a time, for a search that starts near the highest load.
func nearLadder(precision float64) ladder {
	return ladder{
		precision: precision, steps: mostReach,
		reach: func(last float64, up bool, step int) []float64 {
			factor := firstReach
			for range step {
				factor *= factor
			}
			if up {
				return []float64{last * factor}
			}
			return []float64{last / factor}
		},
		between: func(met, missed float64) []float64 { return []float64{math.Sqrt(float64(met * missed))} },
	}
}

// findHighest returns the highest load at which a cluster meets, to the precision of the ladder, and the lowest tried
// load above it. Met is nil if the cluster misses at any load, missed is nil if it meets at any.
func (b *bench) findHighest(ctx context.Context, from Point, by ladder) (met, missed *Measure, err error) {
	met, missed, err = b.bracketLoad(ctx, from, &by)
	for err == nil && met != nil && missed != nil && missed.Load/met.Load > 1+by.precision {
		var all []*Measure
		if all, err = b.measureAt(ctx, from, by.between(met.Load, missed.Load)...); err != nil {
			return nil, nil, err
		}
		for _, m := range all {
			if !m.Met {
				missed = m
				break
			}
			met = m
		}
	}
	return met, missed, err
}

// bracketLoad raises the load until it is missed if the first load is met, and lowers it until it is met otherwise.
func (b *bench) bracketLoad(ctx context.Context, from Point, by *ladder) (met, missed *Measure, err error) {
	all, err := b.measure(ctx, from)
	if err != nil {
		return nil, nil, err
	}
	last, up := all[0], all[0].Met
	for step := range by.steps {
		if all, err = b.measureAt(ctx, from, by.reach(last.Load, up, step)...); err != nil {
			return nil, nil, err
		}
		for _, m := range all {
			switch {
			case m.Met == up:
				last = m
			case up:
				return last, m, nil
			default:
				return m, last, nil
			}
		}
	}
	if up {
		return last, nil, nil
	}
	return nil, last, nil
}

// measureAt measures a point at several loads.
func (b *bench) measureAt(ctx context.Context, p Point, loads ...float64) ([]*Measure, error) {
	points := make([]Point, len(loads))
	for i, load := range loads {
		points[i] = p
		points[i].Load = load
	}
	return b.measure(ctx, points...)
}
