package plan

import (
	"context"
	"math"
)

// mostDoublings bounds how far from the workload's own load the highest is
// looked for, both ways.
const mostDoublings = 12

// findHighest finds the highest load at which a cluster meets, to a relative
// precision, and the lowest one above it that was tried and misses. Met is nil
// when the cluster misses at any load, missed when it meets at any.
func (b *bench) findHighest(ctx context.Context, at Point, precision float64) (met, missed *Measure, err error) {
	all, err := b.measure(ctx, at)
	if err != nil {
		return nil, nil, err
	}
	met, missed, err = b.bracketLoad(ctx, all[0])
	for err == nil && met != nil && missed != nil && missed.Load/met.Load > 1+precision {
		met, missed, err = b.narrowLoad(ctx, met, missed)
	}
	return met, missed, err
}

// bracketLoad doubles the load from one that is met until it is missed, and halves
// it from one that is missed until it is met.
func (b *bench) bracketLoad(ctx context.Context, from *Measure) (met, missed *Measure, err error) {
	factor := 2.0
	if !from.Met {
		factor = 0.5
	}
	last := from
	for range mostDoublings / 2 {
		all, err := b.measureAt(ctx, last.Point, last.Load*factor, last.Load*factor*factor)
		if err != nil {
			return nil, nil, err
		}
		for _, m := range all {
			if m.Met != from.Met {
				met, missed = orderMet(last, m)
				return met, missed, nil
			}
			last = m
		}
	}
	met, missed = orderMet(last, nil)
	return met, missed, nil
}

// orderMet returns two measures, the second of which may be nil, as one that meets
// and one that misses. They are not both alike.
func orderMet(a, b *Measure) (met, missed *Measure) {
	if a.Met {
		return a, b
	}
	return b, a
}

// narrowLoad tries three loads between two, in equal ratios.
func (b *bench) narrowLoad(ctx context.Context, met, missed *Measure) (*Measure, *Measure, error) {
	step := math.Sqrt(math.Sqrt(missed.Load / met.Load))
	all, err := b.measureAt(ctx, met.Point, met.Load*step, float64(met.Load*step)*step, missed.Load/step)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range all {
		if !m.Met {
			return met, m, nil
		}
		met = m
	}
	return met, missed, nil
}

// measureAt measures a point at other loads.
func (b *bench) measureAt(ctx context.Context, p Point, loads ...float64) ([]*Measure, error) {
	points := make([]Point, len(loads))
	for i, load := range loads {
		points[i] = p
		points[i].Load = load
	}
	return b.measure(ctx, points...)
}

// findSustained finds the highest load at which a cluster meets, as a search from
// the load of from finds it one replay at a time; nil when there is none near.
func (b *bench) findSustained(ctx context.Context, from Point, precision float64) (*Measure, error) {
	met, missed, err := b.bracketNear(ctx, from)
	for err == nil && met != nil && missed != nil && missed.Load/met.Load > 1+precision {
		var all []*Measure
		if all, err = b.measureAt(ctx, from, math.Sqrt(float64(met.Load*missed.Load))); err != nil {
			break
		}
		if all[0].Met {
			met = all[0]
		} else {
			missed = all[0]
		}
	}
	return met, err
}

// firstReach is the first step of reach; each further one is the square of the
// one before.
const (
	firstReach = 1.25
	mostReach  = 6
)

// bracketNear goes from a load, in steps that grow, until one is met and one
// missed.
func (b *bench) bracketNear(ctx context.Context, from Point) (met, missed *Measure, err error) {
	all, err := b.measure(ctx, from)
	if err != nil {
		return nil, nil, err
	}
	up := all[0].Met
	last, factor := all[0], firstReach
	for range mostReach {
		load := last.Load / factor
		if up {
			load = float64(last.Load * factor)
		}
		if all, err = b.measureAt(ctx, from, load); err != nil {
			return nil, nil, err
		}
		if all[0].Met != up {
			met, missed = orderMet(last, all[0])
			return met, missed, nil
		}
		last, factor = all[0], float64(factor*factor)
	}
	met, missed = orderMet(last, nil)
	return met, missed, nil
}
