package series

import "math"

// most is the number of bins.
const most = 512

// bins hold one number each, over time: bin i of [i·width, (i+1)·width). Those
// after the last are 0.
type bins []float64

func (b *bins) add(i int, n float64) {
	for len(*b) <= i {
		*b = append(*b, 0)
	}
	(*b)[i] += n
}

func (b bins) sum() float64 {
	total := 0.0
	for _, n := range b {
		total += n
	}
	return total
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

// kept is a copy of b in bins 2^folds times as wide, to three digits.
func (b bins) kept(folds int) bins {
	b = append(make(bins, 0, len(b)), b...)
	for range folds {
		b.foldTwice()
	}
	for i := range b {
		b[i] = roundDigits(b[i])
	}
	return b
}

// roundDigits is v to three digits: bins hold shares of passes, and their last digits
// mean nothing.
func roundDigits(v float64) float64 { return math.Round(v*1000) / 1000 }
