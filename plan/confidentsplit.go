package plan

import (
	"cmp"
	"context"
	"slices"
)

// Bounds of the search for two pools: sizes of the cluster that are tried on the way up,
// and splits of each size.
const (
	mostSizes  = 20
	mostSplits = 4
)

// splitSearch looks for the smallest two pools that meet in most resamples.
type splitSearch struct {
	*Config
	bench   *bench
	variant int
	need    int // resamples in which they are to meet
	// probes are the resamples on which a cluster is run first: those that the
	// answer's missed by most, more than it may miss.
	probes []int
}

// growPools finds two pools, from those of the answer up. Of each size it tries the splits
// around the best one of the size before; sizes grow by an eighth, and those left out
// are searched once a larger one holds.
func (s *splitSearch) growPools(ctx context.Context, a *Answer, f *Confident) error {
	if err := s.chooseProbes(ctx, a.Shape); err != nil {
		return err
	}
	low, at := a.Shape.Size()-1, a.Shape
	for size, tried := a.Shape.Size(), 1; ; tried++ {
		met, err := s.tryNear(ctx, &at, size)
		if err != nil {
			return err
		}
		if f.Shape, f.Met, f.Found = at, met, met >= s.need; f.Found {
			break
		}
		if low = size; size >= s.Most || tried == mostSizes {
			f.Met, err = s.countMet(ctx, s.bench, s.variant, at)
			return err
		}
		size = min(size+max(1, size/8), s.Most)
	}
	for high := f.Shape.Size(); high-low > 1; {
		size, at := (low+high)/2, f.Shape
		met, err := s.tryNear(ctx, &at, size)
		if err != nil {
			return err
		}
		if met < s.need {
			low = size
			continue
		}
		f.Shape, f.Met, high = at, met, size
	}
	return nil
}

// chooseProbes chooses the resamples to begin with.
func (s *splitSearch) chooseProbes(ctx context.Context, shape Shape) error {
	for sample := 1; sample <= s.Resamples; sample++ {
		s.probes = append(s.probes, sample)
	}
	all, err := s.measureOn(ctx, s.probes, shape)
	if err != nil {
		return err
	}
	slices.SortStableFunc(s.probes, func(a, b int) int { return cmp.Compare(all[b-1].shortfall(), all[a-1].shortfall()) })
	s.probes = s.probes[:min(s.Resamples, s.Resamples-s.need+3)]
	return nil
}

// tryNear replaces at by the best split of a size among those around it, and returns in how
// many resamples that meets; 0 when it was not run on all, since it misses too many.
func (s *splitSearch) tryNear(ctx context.Context, at *Shape, size int) (met int, err error) {
	shapes := listSplitsNear(*at, size)
	all, err := s.measureOn(ctx, s.probes, shapes...)
	if err != nil {
		return 0, err
	}
	least := 0.0
	for i, shape := range shapes {
		missed, short := 0, 0.0
		for k := range s.probes {
			if m := all[i*len(s.probes)+k]; !m.Met {
				missed++
				short += m.shortfall()
			}
		}
		if missed <= s.Resamples-s.need {
			if met, err = s.countMet(ctx, s.bench, s.variant, shape); err != nil || met >= s.need {
				*at = shape
				return met, err
			}
		}
		if i == 0 || short < least {
			least, *at = short, shape
		}
	}
	return 0, nil
}

// measureOn measures shapes on resamples, shape by shape.
func (s *splitSearch) measureOn(ctx context.Context, samples []int, shapes ...Shape) ([]*Measure, error) {
	var points []Point
	for _, shape := range shapes {
		for _, sample := range samples {
			points = append(points, Point{Variant: s.variant, Shape: shape, Load: 1, Sample: sample})
		}
	}
	return s.bench.measure(ctx, points...)
}

// listSplitsNear returns splits of a size whose pools are about those of another cluster, or
// what lies between these and it.
func listSplitsNear(from Shape, size int) []Shape {
	grow := size - from.Size()
	low, high := max(1, from.Prefill+min(0, grow)-1), min(size-1, from.Prefill+max(0, grow)+1)
	var all []Shape
	for _, prefill := range spreadBetween(low-1, high+1, mostSplits) {
		all = append(all, Two(prefill, size-prefill))
	}
	return all
}

// shortfall returns by how much a replay misses: 0 when it meets, at least 1 otherwise.
func (m *Measure) shortfall() float64 {
	if m.Met {
		return 0
	}
	worst := 1.0
	for i := range m.Values {
		worst = max(worst, min(m.Values[i].Excess(), 1e3))
	}
	return worst
}
