package inspect

import (
	"math"
	"math/bits"
)

// Lengths is a distribution of whole numbers ≥ 0. Numbers below 2^18 are counted one by one, larger ones in steps of
// 1/2048 of their size.
type Lengths struct {
	N           int64
	Sum         float64
	Min, Max    int
	Approximate bool // some were too large to be counted one by one

	counts []int64 // by place, see placeOf
}

const (
	exactLengths = 1 << 18
	stepBits     = 11
)

func (l *Lengths) add(n int) {
	n = max(n, 0)
	if l.N == 0 || n < l.Min {
		l.Min = n
	}
	l.Max = max(l.Max, n)
	l.N++
	l.Sum += float64(n)
	l.Approximate = l.Approximate || n >= exactLengths
	at := placeOf(n)
	if at >= len(l.counts) {
		l.counts = append(l.counts, make([]int64, max(at+1, min(2*len(l.counts), exactLengths))-len(l.counts))...)
	}
	l.counts[at]++
}

// placeOf is the bin of n: small numbers have a bin each, larger ones share bins.
func placeOf(n int) int {
	if n < exactLengths {
		return n
	}
	return exactLengths + stepOf(n)
}

// stepOf numbers the steps from exactLengths up.
func stepOf(n int) int {
	shift := bits.Len(uint(n)) - 1 - stepBits
	return (shift-(18-stepBits))<<stepBits + n>>shift - 1<<stepBits
}

// floorOf is the least number of a step.
func floorOf(at int) int {
	shift := at>>stepBits + 18 - stepBits
	return (at&(1<<stepBits-1) + 1<<stepBits) << shift
}

// Mean is 0 of nothing.
func (l *Lengths) Mean() float64 {
	if l.N == 0 {
		return 0
	}
	return l.Sum / float64(l.N)
}

// Quantile is the number at round((N-1)·q), halves up, of all in ascending
// order.
func (l *Lengths) Quantile(q float64) int {
	if l.N == 0 {
		return 0
	}
	rank := int64(math.Floor(float64(l.N-1)*q + 0.5))
	for at, c := range l.counts {
		switch rank -= c; {
		case rank >= 0:
		case at < exactLengths:
			return at
		default:
			return min(max(floorOf(at-exactLengths), l.Min), l.Max)
		}
	}
	return l.Max
}
