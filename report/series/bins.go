package series

import "math"

// most is the number of bins.
const most = 512

// bins holds one number per time bin: bin i covers [i·width, (i+1)·width). Bins after the last are 0.
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

// foldTwice doubles the width of the bins.
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

// kept returns a copy of b with bins 2^folds times as wide, rounded to three digits.
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

// roundDigits returns v rounded to three digits. Bins contain shares of passes, so that further digits carry no
// information.
func roundDigits(v float64) float64 { return math.Round(v*1000) / 1000 }
