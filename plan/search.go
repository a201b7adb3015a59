package plan

import (
	"context"
	"slices"
)

// probes is the number of sizes that are tried at once. It is a constant, so
// that the same clusters are run on any number of cores.
const probes = 4

// exhaustive is the number of smaller clusters that are all run too: more workers
// may be worse, when requests that share a prefix are parted.
const exhaustive = 64

// findSmallest finds the least n from 1 to most that meets, 0 when none does. met
// reports of several sizes at once whether they do.
func findSmallest(ctx context.Context, most int, met func(context.Context, []int) ([]bool, error)) (int, error) {
	low, high, err := bracketSize(ctx, most, met)
	if err != nil || high == 0 {
		return 0, err
	}
	for high-low > 1 {
		if low, high, err = narrowSize(ctx, low, high, met); err != nil {
			return 0, err
		}
	}
	return checkBelow(ctx, high, met)
}

// bracketSize doubles until a size meets. low misses, or is 0; high is 0 when none
// up to most meets.
func bracketSize(ctx context.Context, most int, met func(context.Context, []int) ([]bool, error)) (low, high int, err error) {
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

// narrowSize tries sizes between low, which misses, and high, which meets.
func narrowSize(ctx context.Context, low, high int, met func(context.Context, []int) ([]bool, error)) (int, int, error) {
	sizes := spreadBetween(low, high, probes)
	ok, err := met(ctx, sizes)
	if err != nil {
		return 0, 0, err
	}
	i := slices.Index(ok, true)
	switch {
	case i < 0:
		return sizes[len(sizes)-1], high, nil
	case i == 0:
		return low, sizes[0], nil
	}
	return sizes[i-1], sizes[i], nil
}

// spreadBetween returns up to count whole numbers that part the open interval
// from low to high evenly.
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

// checkBelow runs what has not been run of the clusters smaller than n, the nearest
// of them when they are many, and returns the least that meets.
func checkBelow(ctx context.Context, n int, met func(context.Context, []int) ([]bool, error)) (int, error) {
	var sizes []int
	for size := max(1, n-exhaustive); size < n; size++ {
		sizes = append(sizes, size)
	}
	ok, err := met(ctx, sizes)
	if err != nil {
		return 0, err
	}
	if i := slices.Index(ok, true); i >= 0 {
		return checkBelow(ctx, sizes[i], met)
	}
	return n, nil
}
