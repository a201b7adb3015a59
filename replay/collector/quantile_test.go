package collector

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/replay-llm/replay/sim"
)

func TestRank(t *testing.T) {
	tests := []struct {
		n    int64
		p    float64
		want int64
	}{
		{1, 50, 0}, {1, 99, 0},
		{2, 50, 1}, // halfway between two ranks: the upper rank
		{3, 50, 1}, {4, 50, 2}, {4, 75, 2}, {5, 90, 4},
		{100, 99, 98}, {101, 99, 99}, {11, 95, 10}, {12031, 99, 11910},
	}
	for _, test := range tests {
		if got := NearestRank(test.n, test.p); got != test.want {
			t.Errorf("rank(%d, %v) = %d, want %d", test.n, test.p, got, test.want)
		}
	}
}

// TestRadixSort checks that the radix sort is stable and keeps every weight with its key. TestRadixSort uses long and
// short lists with few and many differing bits, and with equal keys.
func TestRadixSort(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	keys := map[string]func() uint64{
		"any":       rng.Uint64,
		"one":       func() uint64 { return 77 },
		"few bits":  func() uint64 { return 1<<40 | rng.Uint64N(9)<<20 },
		"two bits":  func() uint64 { return rng.Uint64()&1<<63 | rng.Uint64()&1 },
		"11 bits":   func() uint64 { return rng.Uint64N(1 << 11) },
		"12 bits":   func() uint64 { return rng.Uint64N(1<<12) << 52 },
		"latencies": func() uint64 { return math.Float64bits(5 + rng.ExpFloat64()) },
	}
	for name, key := range keys {
		for _, n := range []int{0, 1, 2, 3, 100, 5000} {
			t.Run(fmt.Sprint(name, " ", n), func(t *testing.T) {
				type pair struct {
					key    uint64
					weight int64
				}
				var list []uint64
				var weights []int64
				var want []pair
				for i := range n {
					list = append(list, key())
					weights = append(weights, int64(i))
					want = append(want, pair{list[i], int64(i)})
				}
				slices.SortStableFunc(want, func(a, b pair) int {
					if a.key < b.key {
						return -1
					}
					return min(1, int(min(a.key-b.key, 1)))
				})
				sorted, _ := radixSort(weighted{list, weights}, weighted{make([]uint64, n), make([]int64, n)})
				for i, p := range want {
					if sorted.bits[i] != p.key || sorted.counts[i] != p.weight {
						t.Fatalf("at %d: %d with %d, want %d with %d", i, sorted.bits[i], sorted.counts[i], p.key, p.weight)
					}
				}
			})
		}
	}
}

// TestPick checks that pickRanks finds the value at each rank of the sorted list.
func TestPick(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	values := map[string]func() float64{
		"any":         func() float64 { return math.Float64frombits(rng.Uint64() >> 2) },
		"one":         func() float64 { return 5.5 },
		"two":         func() float64 { return float64(rng.IntN(2)) },
		"tokens":      func() float64 { return float64(rng.IntN(5000)) },
		"latencies":   func() float64 { return 5 + rng.ExpFloat64() },
		"mostly zero": func() float64 { return max(0, rng.NormFloat64()-1) },
		"low bits":    func() float64 { return math.Float64frombits(rng.Uint64N(1 << 14)) },
		"one far off": func() float64 { return 3 + rng.Float64()/1e9 + float64(rng.IntN(1000)/999)*1e300 },
	}
	for name, value := range values {
		for _, n := range []int{1, 2, 3, 10, sortBelow, 1000, 20_000} {
			list := make([]float64, n)
			for i := range list {
				list[i] = value()
			}
			sorted := slices.Sorted(slices.Values(list))
			ranks := []int{0, n / 2, n / 2, n - 1 - n/7, n - 1}
			got := make([]float64, len(ranks))
			pickRanks(list, ranks, got, make([]float64, n))
			for i, r := range ranks {
				if got[i] != sorted[r] {
					t.Errorf("%s, %d values: rank %d is %v, want %v", name, n, r, got[i], sorted[r])
				}
			}
		}
	}
}

// TestWeightedDistribution checks that a weighted list has the same distribution as the list with repeated values.
func TestWeightedDistribution(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for n := 1; n < 200; n++ {
		var all []float64
		var list weighted
		v := 0.0
		for range n {
			v += rng.ExpFloat64()
			list.bits = append(list.bits, math.Float64bits(v))
			list.counts = append(list.counts, 1+rng.Int64N(1+rng.Int64N(50)))
			for range list.counts[len(list.counts)-1] {
				all = append(all, v)
			}
		}
		got, want := describeWeighted(list), describeSamples(slices.Clone(all), make([]float64, len(all)))
		if !near(got.Mean, want.Mean) || !near(got.Std, want.Std) {
			t.Errorf("%d values: mean %v, std %v, want %v, %v", n, got.Mean, got.Std, want.Mean, want.Std)
		}
		got.Mean, got.Std = want.Mean, want.Std
		if got != want {
			t.Errorf("%d values: got %+v, want %+v", n, got, want)
		}
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-12*max(1, math.Abs(b)) }

// TestGapsCompact checks that a long list of gaps is compacted while it grows, without losing a gap.
func TestGapsCompact(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var g gaps
	want := map[float64]int64{}
	for range 3 * compactAt {
		gap, n := float64(rng.IntN(1000)-5)/8, rng.Int64N(4)
		g.add(sim.Time(gap), n)
		if n > 0 {
			want[max(gap, 0)] += n
		}
	}
	if len(g.bits) > 2*compactAt {
		t.Errorf("%d entries for %d different gaps, want at most %d", len(g.bits), len(want), 2*compactAt)
	}
	g.compact()
	if len(g.bits) != len(want) || len(g.counts) != len(want) {
		t.Fatalf("%d gaps, %d counts, want %d", len(g.bits), len(g.counts), len(want))
	}
	for i, b := range g.bits {
		if gap := math.Float64frombits(b); g.counts[i] != want[gap] {
			t.Errorf("gap %v: %d times, want %d", gap, g.counts[i], want[gap])
		}
	}
}

// TestDeviationOfNearlyEqualGaps checks the precision of the mean and deviation of nearly equal latencies.
func TestDeviationOfNearlyEqualGaps(t *testing.T) {
	var g gaps
	for i := range 1000 {
		g.add(sim.Time(1e6+float64(i%2)/1024), 1_000_000)
	}
	d := g.latencies()
	if want := 0.5 / 1024; math.Abs(d.Std-want) > 1e-9 {
		t.Errorf("std %v, want %v", d.Std, want)
	}
}
