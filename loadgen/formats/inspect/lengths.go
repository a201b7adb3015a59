package inspect

import (
	"math"
	"math/bits"
)

// Lengths is a histogram of integers ≥ 0. Each number below 2^18 has a separate bin. The width of the bins for larger
// numbers is at most 1/2048 of the number.
type Lengths struct {
	N           int64
	Sum         float64
	Min, Max    int
	Approximate bool // at least one number is 2^18 or larger

	counts []int64 // by bin, see placeOf
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

// placeOf returns the bin of n. Numbers below exactLengths have separate bins, and larger numbers share bins.
func placeOf(n int) int {
	if n < exactLengths {
		return n
	}
	return exactLengths + stepOf(n)
}

// stepOf returns the number of the shared bin of n, counted from exactLengths.
func stepOf(n int) int {
	shift := bits.Len(uint(n)) - 1 - stepBits
	return (shift-(18-stepBits))<<stepBits + n>>shift - 1<<stepBits
}

// floorOf returns the least number in a shared bin.
func floorOf(at int) int {
	shift := at>>stepBits + 18 - stepBits
	return (at&(1<<stepBits-1) + 1<<stepBits) << shift
}

// Mean returns the mean, or 0 if there are no numbers.
func (l *Lengths) Mean() float64 {
	if l.N == 0 {
		return 0
	}
	return l.Sum / float64(l.N)
}

// Quantile returns the number at index round((N-1)·q) in ascending order. Halves are rounded up.
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
