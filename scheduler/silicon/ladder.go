package silicon

import (
	"math"
	"math/bits"
	"sync/atomic"
)

// A ladder of n is the integers at which times are tabulated: all integers up to 2^(n+1), then 2^n integers between
// successive powers of two. The rung of a number is computed without a search.
type ladder uint

// at returns the integer at a rung.
func (l ladder) at(rung int) int {
	each := 1 << l
	if rung < 2*each {
		return rung
	}
	octave := rung/each - 1
	return (each + rung%each) << octave
}

// below returns the highest rung with an integer of at most x.
func (l ladder) below(x int) int {
	each := 1 << l
	if x < 2*each {
		return max(x, 0)
	}
	octave := bits.Len(uint(x)) - int(l) - 1
	return octave*each + x>>octave
}

// segment returns the rung below x and the position of x between this rung and the next, as a share of their
// distance. After the last rung, the last segment is extrapolated.
func (l ladder) segment(values int, x int) (rung int, share float64) {
	rung = min(l.below(x), values-2)
	apart := max(rung>>l-1, 0) // exponent of the distance between this rung and the next; the distance is a power of two with an exact inverse
	return rung, float64(float64(x-l.at(rung)) * math.Float64frombits(uint64(1023-apart)<<52))
}

// table contains the values of a function at the rungs of a ladder. Each value is computed at first use, by any
// number of goroutines with the same result.
type table struct {
	by    ladder
	cells []atomic.Uint64
	f     func(x int) float64
}

// newTable returns the table of f from 1 to the first rung of at least most. Rung 0 has the value of rung 1.
func newTable(by ladder, most int, f func(x int) float64) *table {
	last := by.below(most)
	if by.at(last) < most {
		last++
	}
	return &table{by, make([]atomic.Uint64, max(last, 2)+1), f}
}

// value returns the value at a rung.
func (t *table) value(rung int) float64 {
	cell := &t.cells[rung]
	if known := cell.Load(); known != 0 {
		return math.Float64frombits(known)
	}
	v := t.f(t.by.at(max(rung, 1)))
	cell.Store(math.Float64bits(v))
	return v
}

// at returns the value at x, interpolated linearly between rungs.
func (t *table) at(x int) float64 {
	rung, share := t.by.segment(len(t.cells), x)
	if share == 0 {
		return t.value(rung)
	}
	low := t.value(rung)
	return low + float64(share*(t.value(rung+1)-low))
}

// grid is a list of tables by length, one per number of requests.
type grid []*table

func newGrid(requests int, f func(requests, length int) float64) grid {
	var all grid
	for rung := 0; ; rung++ {
		n := byRequests.at(max(rung, 1))
		all = append(all, newTable(byLength, mostLength, func(s int) float64 { return f(n, s) }))
		if n >= requests {
			return all
		}
	}
}
