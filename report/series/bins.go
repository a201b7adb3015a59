package series

import "github.com/replay-llm/replay/sim"

// most is the number of bins.
const most = 512

// grid is where bins lie: bin i holds [i·width, (i+1)·width).
type grid struct{ width sim.Time }

func (g grid) binEnd() sim.Time { return most * g.width }

// bins hold one number each, over time; those after the last are 0.
type bins []float64

func (b *bins) add(i int, n float64) {
	for len(*b) <= i {
		*b = append(*b, 0)
	}
	(*b)[i] += n
}

// foldTwice makes bins twice as wide.
func (b *bins) foldTwice() {
	old := *b
	n := (len(old) + 1) / 2
	for i := range n {
		sum := old[2*i]
		if 2*i+1 < len(old) {
			sum += old[2*i+1]
		}
		old[i] = sum
	}
	*b = old[:n]
}
