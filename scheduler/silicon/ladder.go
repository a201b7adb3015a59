package silicon

import (
	"math"
	"math/bits"
	"sync/atomic"
)

// A ladder is the whole numbers at which times are tabulated: all up to 2^(n+1), then 2^n between powers of two. A rung is
// found without a search.
type ladder uint

// at returns the number of a rung.
func (l ladder) at(rung int) int {
	each := 1 << l
	if rung < 2*each {
		return rung
	}
	octave := rung/each - 1
	return (each + rung%each) << octave
}

// below returns the last rung that is not above x.
func (l ladder) below(x int) int {
	each := 1 << l
	if x < 2*each {
		return max(x, 0)
	}
	octave := bits.Len(uint(x)) - int(l) - 1
	return octave*each + x>>octave
}

// segment returns the rung of values below x, and the place of x above it as a share of the way to the next. Past the last rung
// the last stretch continues.
func (l ladder) segment(values int, x int) (rung int, share float64) {
	rung = min(l.below(x), values-2)
	apart := max(rung>>l-1, 0) // the power of two between this rung and the next, of which the inverse is exact
	return rung, float64(float64(x-l.at(rung)) * math.Float64frombits(uint64(1023-apart)<<52))
}

// table is the values of a function at the rungs of a ladder. Each is computed when it is first asked for, by any number
// of goroutines: all compute the same.
type table struct {
	by    ladder
	cells []atomic.Uint64
	f     func(x int) float64
}

// newTable returns the table of f from 1 to the first rung that is not below most. Rung 0 is as the first.
func newTable(by ladder, most int, f func(x int) float64) *table {
	last := by.below(most)
	if by.at(last) < most {
		last++
	}
	return &table{by, make([]atomic.Uint64, max(last, 2)+1), f}
}

// value returns that of a rung.
func (t *table) value(rung int) float64 {
	cell := &t.cells[rung]
	if known := cell.Load(); known != 0 {
		return math.Float64frombits(known)
	}
	v := t.f(t.by.at(max(rung, 1)))
	cell.Store(math.Float64bits(v))
	return v
}

// at returns the value at x, linear between rungs.
func (t *table) at(x int) float64 {
	rung, share := t.by.segment(len(t.cells), x)
	if share == 0 {
		return t.value(rung)
	}
	low := t.value(rung)
	return low + float64(share*(t.value(rung+1)-low))
}

// grid is tables by requests of values by length.
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
