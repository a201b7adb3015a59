package plan

import (
	"context"

	"github.com/replay-llm/replay/internal/stable"
)

// Bounds of the search for two pools: sizes of the cluster that are tried while it grows, and splits of each size.
const (
	mostSizes  = 20
	mostSplits = 4
)

// growPools finds two pools. Of each size it tries the splits around the best split of the
// size before. Sizes grow from the answer's by an eighth; the sizes left out are searched
// once a larger one meets. When the answer's own size meets, smaller sizes follow.
func (s *targetSearch) growPools(ctx context.Context, a *Answer, f *Confident) error {
	low, at := a.Shape.Size()-1, a.Shape
	for size, tried := a.Shape.Size(), 1; ; tried++ {
		met, err := s.tryNear(ctx, &at, size)
		if err != nil {
			return err
		}
		if f.Shape, f.Found = at, met >= s.need; f.Found {
			break
		}
		if low = size; size >= s.Most || tried == mostSizes {
			return nil
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
		f.Shape, high = at, size
	}
	for size := f.Shape.Size() - 1; size == low && size >= 2; size-- {
		at := f.Shape
		met, err := s.tryNear(ctx, &at, size)
		if err != nil || met < s.need {
			return err
		}
		f.Shape, low = at, size-1
	}
	return nil
}

// tryNear replaces at by the best split of a size among those around it, and returns in how
// many resamples that meets; 0 when it was not run on all, since it misses too many.
func (s *targetSearch) tryNear(ctx context.Context, at *Shape, size int) (met int, err error) {
	shapes := listSplitsNear(*at, size)
	v := &s.Variants[s.variant]
	stable.Sort(shapes, func(a, b Shape) int { return v.GPUsOf(a) - v.GPUsOf(b) }) // where pools differ in GPUs, a split with fewer comes first
	first := s.probes[:min(len(s.probes), s.Resamples-s.need+1)]                   // enough to miss too many
	all, err := s.measureOn(ctx, first, shapes...)
	if err != nil {
		return 0, err
	}
	least := 0.0
	for i, shape := range shapes {
		missed, short := sumMissed(all[i*len(first) : (i+1)*len(first)])
		if missed <= s.Resamples-s.need {
			rest, err := s.measureOn(ctx, s.probes[len(first):], shape)
			if err != nil {
				return 0, err
			}
			if also, _ := sumMissed(rest); missed+also <= s.Resamples-s.need {
				if met, err = s.countMet(ctx, shape); err != nil || met >= s.need {
					*at = shape
					return met, err
				}
			}
		}
		if i == 0 || short < least {
			least, *at = short, shape
		}
	}
	return 0, nil
}

// sumMissed returns how many replays miss, and by how much in all.
func sumMissed(all []*Measure) (missed int, short float64) {
	for _, m := range all {
		if !m.Met {
			missed++
			short += m.shortfall()
		}
	}
	return missed, short
}

// listSplitsNear returns splits of a size with pools of about the sizes of another cluster, or the splits between these
// and it.
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
