package bitset_test

import (
	"math/rand/v2"
	"testing"

	"github.com/replay-llm/replay/internal/bitset"
)

// Min of a set equals the smallest key of a map with the same integers.
func TestEqualsMap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var s bitset.Set
	in := map[int]bool{}
	for range 10_000 {
		i := r.IntN(300)
		if r.IntN(2) == 0 {
			s.Add(i)
			in[i] = true
		} else {
			s.Remove(i)
			delete(in, i)
		}
		least := -1
		for i := range in {
			if least < 0 || i < least {
				least = i
			}
		}
		if got := s.Min(); got != least {
			t.Fatalf("the smallest is %d, must be %d", got, least)
		}
	}
}
