package formats

import (
	"math/rand/v2"
	"testing"
)

// The block sizes that match all rows are the sizes that match each single row.
func TestFittingBlockSizes(t *testing.T) {
	const largest = 100
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 20_000 {
		var c cover
		spare, more := r.IntN(2) == 0, r.IntN(3) == 0
		fit := make([]bool, largest+1)
		for size := range fit {
			fit[size] = size > 0
		}
		block := 1 + r.IntN(largest)
		for range 1 + r.IntN(4) {
			tokens := r.IntN(300)
			n := (tokens + block - 1) / block
			if r.IntN(4) == 0 {
				n = r.IntN(12)
			}
			c.add(uint64(n), uint64(tokens), spare, more)
			for size := 1; size <= largest; size++ {
				full, all := tokens/size, (tokens+size-1)/size
				fit[size] = fit[size] && (n == all || spare && n == full || more && n > all)
			}
		}
		got := c.fitting()
		if got != 0 && got <= largest && !fit[got] {
			t.Fatalf("case %d: %d, which does not fit", i, got)
		}
		for size := 1; size <= largest; size++ {
			if in := c.least <= uint64(size) && uint64(size) <= c.most; in != fit[size] {
				t.Fatalf("case %d, spare %v, more %v: %d fits: %v, and it is among %d to %d", i, spare, more, size, fit[size], c.least, c.most)
			}
		}
	}
}
