package inspect

import (
	"math"
	"math/bits"
)

// Lengths is a distribution of whole numbers ≥ 0. Those below 2^18 are counted
// one by one, larger ones in steps of 1/2048 of their size.
type Lengths struct {
	N           int64
	Sum         float64
	Min, Max    int
	Approximate bool // some were too large to be counted one by one

	exact []uint32
	large []uint32
	over  map[int]int64 // counts beyond what 32 bits hold, by place in exact and, negative, in large
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
	if n < exactLengths {
		if n >= len(l.exact) {
			l.exact = append(l.exact, make([]uint32, max(n+1, min(2*len(l.exact), exactLengths))-len(l.exact))...)
		}
		l.countUp(&l.exact[n], n)
		return
	}
	l.Approximate = true
	at := stepOf(n)
	if at >= len(l.large) {
		l.large = append(l.large, make([]uint32, at+1-len(l.large))...)
	}
	l.countUp(&l.large[at], -1-at)
}

func (l *Lengths) countUp(count *uint32, place int) {
	if *count++; *count == 0 {
		if l.over == nil {
			l.over = make(map[int]int64)
		}
		l.over[place] += 1 << 32
	}
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
	for n, c := range l.exact {
		if rank -= int64(c) + l.over[n]; rank < 0 {
			return n
		}
	}
	for at, c := range l.large {
		if rank -= int64(c) + l.over[-1-at]; rank < 0 {
			return min(max(floorOf(at), l.Min), l.Max)
		}
	}
	return l.Max
}
