package stable_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/replay-llm/replay/internal/stable"
)

// pair has a key for sorting, and a place that differs between pairs with equal keys.
type pair struct{ key, place int }

func compareKeys(a, b pair) int { return cmp.Compare(a.key, b.key) }

// TestEqualsStandardLibrary compares the results with package slices for lists of many lengths.
func TestEqualsStandardLibrary(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 300 {
		got := make([]pair, n)
		for i := range got {
			got[i] = pair{r.IntN(1 + n/4), i}
		}
		want := slices.Clone(got)
		slices.SortStableFunc(want, compareKeys)
		if stable.Sort(got, compareKeys); !slices.Equal(got, want) {
			t.Fatalf("%d pairs: %v, must be %v", n, got, want)
		}
	}
}

func BenchmarkSort(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	all := make([]pair, 10_000)
	for i := range all {
		all[i] = pair{r.IntN(5000), i}
	}
	for name, sort := range map[string]func([]pair, func(a, b pair) int){
		"stable": stable.Sort[[]pair], "slices": slices.SortStableFunc[[]pair],
	} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				sort(slices.Clone(all), compareKeys)
			}
		})
	}
}
