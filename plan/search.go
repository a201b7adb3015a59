package plan

import (
	"context"
	"slices"
)

// probes is the number of sizes that are tried at once. probes is a constant, so that the same clusters are run on
// any number of cores.
const probes = 4

// exhaustive is the maximum number of smaller clusters that are all run, too. More workers may be worse if requests
// that share a prefix go to different workers.
const exhaustive = 64

// whichMeet reports for several sizes at once whether they meet.
type whichMeet func(context.Context, []int) ([]bool, error)

// findSmallest returns the smallest n from 1 to most that meets, 0 if there is none.
func findSmallest(ctx context.Context, most int, met whichMeet) (int, error) {
	low, high, err := met.bracketSize(ctx, most)
	if err != nil || high == 0 {
		return 0, err
	}
	if high, err = met.narrowSize(ctx, low, high, probes); err != nil {
		return 0, err
	}
	return met.checkBelow(ctx, high, exhaustive)
}

// fewBelow is the number of smaller clusters that are all run after a search that started near the result.
const fewBelow = 4

// findSmallestNear is findSmallest for a search that starts near the result.
func findSmallestNear(ctx context.Context, near, most int, met whichMeet) (int, error) {
	n, err := met.findNear(ctx, near, most)
	if err != nil {
		return 0, err
	}
	ok, err := met(ctx, []int{n}) // it is unknown whether the largest size meets
	if err != nil || !ok[0] {
		return 0, err
	}
	return met.checkBelow(ctx, n, fewBelow)
}

// bracketSize doubles the size until it meets. low misses, or is 0. high is 0 if no size up to most meets.
func (met whichMeet) bracketSize(ctx context.Context, most int) (low, high int, err error) {
	for size := 1; low < most; {
		var sizes []int
		for range probes {
			if size = min(size, most); len(sizes) == 0 || sizes[len(sizes)-1] < size {
				sizes = append(sizes, size)
			}
			size *= 2
		}
		ok, err := met(ctx, sizes)
		if err != nil {
			return 0, 0, err
		}
		if i := slices.Index(ok, true); i > 0 {
			return sizes[i-1], sizes[i], nil
		} else if i == 0 {
			return low, sizes[0], nil
		}
		low = sizes[len(sizes)-1]
	}
	return low, 0, nil
}

// narrowSize returns the smallest size that meets between low, which misses, and high, which meets. narrowSize tries
// count sizes at once.
func (met whichMeet) narrowSize(ctx context.Context, low, high, count int) (int, error) {
	for high-low > 1 {
		sizes := spreadBetween(low, high, count)
		ok, err := met(ctx, sizes)
		if err != nil {
			return 0, err
		}
		i := slices.Index(ok, true)
		if i >= 0 {
			high = sizes[i]
		} else {
			i = len(sizes)
		}
		if i > 0 {
			low = sizes[i-1]
		}
	}
	return high, nil
}

// spreadBetween returns up to count whole numbers that divide the open interval from low to high evenly.
func spreadBetween(low, high, count int) []int {
	gap := high - low
	if gap-1 <= count {
		count = gap - 1
	}
	all := make([]int, count)
	for i := range all {
		all[i] = low + gap*(i+1)/(count+1)
	}
	return all
}

// checkBelow runs the clusters smaller than n that were not run, only the nearest if there are many. checkBelow
// returns the smallest cluster that meets.
func (met whichMeet) checkBelow(ctx context.Context, n, count int) (int, error) {
	var sizes []int
	for size := max(1, n-count); size < n; size++ {
		sizes = append(sizes, size)
	}
	ok, err := met(ctx, sizes)
	if err != nil {
		return 0, err
	}
	if i := slices.Index(ok, true); i >= 0 {
		return met.checkBelow(ctx, sizes[i], count)
	}
	return n, nil
}

// findNear returns the smallest size that meets, by a search in growing steps from guess, one size at a time.
// findNear returns most if no size meets.
func (met whichMeet) findNear(ctx context.Context, guess, most int) (int, error) {
	low, high, err := met.bracketNear(ctx, guess, most)
	if err != nil {
		return 0, err
	}
	return met.narrowSize(ctx, low, high, 1)
}

// bracketNear moves from guess in doubling steps until low misses or is 0, and high meets or is most.
func (met whichMeet) bracketNear(ctx context.Context, guess, most int) (low, high int, err error) {
	ok, err := met(ctx, []int{guess})
	if err != nil {
		return 0, 0, err
	}
	down := ok[0]
	for step := 1; ; step *= 2 {
		next := min(guess+step, most)
		if down {
			next = max(0, guess-step)
		}
		if low, high = min(guess, next), max(guess, next); low == 0 || !down && high == most {
			return low, high, nil
		}
		if ok, err = met(ctx, []int{next}); err != nil || ok[0] != down {
			return low, high, err
		}
		guess = next
	}
}

// listSplits returns the splits of size workers into two pools. For a large size it returns count splits, evenly
// spread.
func listSplits(size, count int) []Shape {
	var all []Shape
	for _, prefill := range spreadBetween(0, size, count) {
		all = append(all, Two(prefill, size-prefill))
	}
	return all
}

// coarse and fine are the numbers of splits of one size that are tried while the size is bracketed, and while the
// answer is checked.
const (
	coarse = 7
	fine   = exhaustive
)

// smallestSplit returns the smallest two pools that meet, a zero Shape if there are none up to most.
func (s *search) smallestSplit(ctx context.Context, most int, near Shape) (found Shape, err error) {
	all := fine
	if near.Size() > 0 {
		all = coarse
		found, err = s.findFirstMet(ctx, []Shape{near})
	}
	if err == nil && found.Size() == 0 {
		found, err = s.findSplit(ctx, most)
	}
	if err != nil || found.Size() == 0 {
		return Shape{}, err
	}
	for {
		if found, err = s.shrinkPools(ctx, found); err != nil {
			return Shape{}, err
		}
		smaller, err := s.findFirstMet(ctx, listSplits(found.Size()-1, all))
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

// shrinkPools removes workers from a pool while the cluster still meets, first from the larger pool.
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

// findFirstMet returns the first of shapes that meets, a zero Shape if there is none.
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

// search searches a shape at one load of one variant.
type search struct {
	bench *bench
	at    Point // except its shape
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
