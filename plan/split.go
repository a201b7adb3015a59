package plan

import (
	"context"
	"slices"
)

// listSplits returns the shapes of size workers in two pools; of a large size
// count of them, evenly spread.
func listSplits(size, count int) []Shape {
	var all []Shape
	for _, prefill := range spreadBetween(0, size, count) {
		all = append(all, Two(prefill, size-prefill))
	}
	return all
}

// coarse and fine are how many splits of one size are tried while it is being
// bracketed and when the answer is checked.
const (
	coarse = 7
	fine   = exhaustive
)

// smallestSplit finds the two pools of the least size that meet, a zero Shape
// when none up to most does.
func (s *search) smallestSplit(ctx context.Context, most int) (Shape, error) {
	found, err := s.findSplit(ctx, most)
	if err != nil || found.Size() == 0 {
		return Shape{}, err
	}
	for {
		if found, err = s.shrinkPools(ctx, found); err != nil {
			return Shape{}, err
		}
		smaller, err := s.findFirstMet(ctx, listSplits(found.Size()-1, fine))
		if err != nil {
			return Shape{}, err
		}
		if smaller.Size() == 0 {
			return found, nil
		}
		found = smaller
	}
}

// findSplit doubles the size until a split of it meets.
func (s *search) findSplit(ctx context.Context, most int) (Shape, error) {
	for size := 2; ; size *= 2 {
		size = min(size, most)
		found, err := s.findFirstMet(ctx, listSplits(size, coarse))
		if err != nil || found.Size() > 0 || size >= most {
			return found, err
		}
	}
}

// shrinkPools takes workers from a pool as long as the rest meets, first from the
// larger pool.
func (s *search) shrinkPools(ctx context.Context, from Shape) (Shape, error) {
	for _, prefill := range []bool{from.Prefill >= from.Decode, from.Prefill < from.Decode} {
		with := func(n int) Shape {
			if prefill {
				return Two(n, from.Decode)
			}
			return Two(from.Prefill, n)
		}
		high := from.Decode
		if prefill {
			high = from.Prefill
		}
		high, err := s.sizes(with).narrowSize(ctx, 0, high, probes)
		if err != nil {
			return from, err
		}
		from = with(high)
	}
	return from, nil
}

// findFirstMet returns the first of shapes that meets, a zero Shape when none does.
func (s *search) findFirstMet(ctx context.Context, shapes []Shape) (Shape, error) {
	all, err := s.measure(ctx, shapes...)
	if err != nil {
		return Shape{}, err
	}
	if i := slices.IndexFunc(all, func(m *Measure) bool { return m.Met }); i >= 0 {
		return shapes[i], nil
	}
	return Shape{}, nil
}

// search looks for a shape at one load of one variant.
type search struct {
	bench *bench
	at    Point // but for its shape
}

func (s *search) measure(ctx context.Context, shapes ...Shape) ([]*Measure, error) {
	points := make([]Point, len(shapes))
	for i, shape := range shapes {
		points[i] = s.at
		points[i].Shape = shape
	}
	return s.bench.measure(ctx, points...)
}

// sizes reports which clusters of several sizes meet.
func (s *search) sizes(with func(int) Shape) whichMeet {
	return func(ctx context.Context, sizes []int) ([]bool, error) {
		shapes := make([]Shape, len(sizes))
		for i, n := range sizes {
			shapes[i] = with(n)
		}
		all, err := s.measure(ctx, shapes...)
		ok := make([]bool, len(all))
		for i, m := range all {
			ok[i] = m.Met
		}
		return ok, err
	}
}
