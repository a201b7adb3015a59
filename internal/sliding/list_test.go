package sliding_test

import (
	"math/rand/v2"
	"testing"

	"github.com/replay-llm/replay/internal/sliding"
)

// A list has the same elements as a slice, apart from dropped elements.
func TestListIsSlice(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var list sliding.List[int]
	var all []int
	gone := 0
	for range 5000 {
		switch rng.IntN(5) {
		case 0:
			gone += rng.IntN(len(all) - gone + 1)
			list.Drop(gone)
		case 1:
			list.Grow(rng.IntN(10))
		default:
			all = append(all, rng.Int())
			list.Append(all[len(all)-1])
		}
		if list.Len() != len(all) {
			t.Fatalf("%d elements, want %d", list.Len(), len(all))
		}
		for i := gone; i < len(all); i++ {
			if *list.At(i) != all[i] {
				t.Fatalf("element %d is %d, want %d", i, *list.At(i), all[i])
			}
		}
	}
}
