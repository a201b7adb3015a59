package plan

import (
	"context"

	"github.com/replay-llm/replay/internal/stable"
)

// Bounds of the search for two pools: the number of sizes tried while the cluster grows, and of splits per size.
const (
	mostSizes  = 20
	mostSplits = 4
)

// growPools searches two pools. For each size it tries the splits near the best split of the previous size. Sizes
// grow from the answer's size by an eighth. Skipped sizes are searched once a larger size meets. If the answer's size
// meets, smaller sizes follow.
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

// tryNear sets at to the best split of a size near at. tryNear returns the number of resamples in which this split
// meets. The number is 0 if the split was not run on all resamples, because it misses too many.
func (s *targetSearch) tryNear(ctx context.Context, at *Shape, size int) (met int, err error) {
	shapes := listSplitsNear(*at, size)
	v := &s.Variants[s.variant]
	stable.Sort(shapes, func(a, b Shape) int { return v.GPUsOf(a) - v.GPUsOf(b) }) // of one size, splits with fewer GPUs come first
	first := s.probes[:min(len(s.probes), s.Resamples-s.need+1)]                   // enough probes to miss too many
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

// sumMissed returns the number of replays that miss, and the sum of their shortfalls.
func sumMissed(all []*Measure) (missed int, short float64) {
	for _, m := range all {
		if !m.Met {
			missed++
			short += m.shortfall()
		}
	}
	return missed, short
}

// listSplitsNear returns splits of a size with pools of similar sizes as in another cluster, or the splits between
// both.
func listSplitsNear(from Shape, size int) []Shape {
	grow := size - from.Size()
	low, high := max(1, from.Prefill+min(0, grow)-1), min(size-1, from.Prefill+max(0, grow)+1)
	var all []Shape
	for _, prefill := range spreadBetween(low-1, high+1, mostSplits) {
		all = append(all, Two(prefill, size-prefill))
	}
	return all
}

// shortfall returns the distance of a replay from meeting: 0 if it meets, at least 1 otherwise.
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
