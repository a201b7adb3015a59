package collector

import (
	"math"
	"math/big"
)

// SketchError is the maximum relative error of a sketched quantile, compared with the value at its rank. A bucket has
// the width 1/bucketParts of the power of two below it, and its middle represents its values.
const SketchError = 1.0 / (2 * bucketParts)

// sketch counts values >= 0 by their leading bits. Sketches can be joined by adding their counts, and are the same on
// every machine.
type sketch struct {
	zeros  int64
	first  int     // bucket of the first count
	counts []int64 // by bucket
}

// sketchShift is the number of low bits of a float64 that a bucket ignores.
const sketchShift = mantissa - bucketBits

// add counts a value n times.
func (s *sketch) add(value float64, n int64) {
	if value == 0 {
		s.zeros += n
		return
	}
	at := int(math.Float64bits(value)>>sketchShift) - s.first
	if at < 0 || at >= len(s.counts) {
		at = s.widen(at)
	}
	s.counts[at] += n
}

// widen extends counts to the index at, and returns the new index of that bucket.
func (s *sketch) widen(at int) int {
	if len(s.counts) == 0 {
		s.first, at = s.first+at, 0
	}
	if at < 0 {
		room := (-at/bucketParts + 1) * bucketParts
		s.counts = append(make([]int64, room), s.counts...)
		s.first, at = s.first-room, at+room
	}
	if missing := at + 1 - len(s.counts); missing > 0 {
		s.counts = append(s.counts, make([]int64, (missing/bucketParts+1)*bucketParts)...)
	}
	return at
}

// values returns the middles of the buckets with their counts. Middles are limited to the bounds least and most.
func (s *sketch) values(least, most float64) (w weighted) {
	if s.zeros > 0 {
		w.bits, w.counts = append(w.bits, 0), append(w.counts, s.zeros)
	}
	for i, n := range s.counts {
		if n == 0 {
			continue
		}
		low := math.Float64frombits(uint64(s.first+i) << sketchShift)
		high := math.Float64frombits(uint64(s.first+i+1) << sketchShift)
		middle := min(max(low+(high-low)/2, least), most)
		w.bits, w.counts = append(w.bits, math.Float64bits(middle)), append(w.counts, n)
	}
	return w
}

// double is a number as the sum of two float64s. The second float64 is the rounding error of the first.
type double struct{ high, low float64 }

// add adds x.
func (d *double) add(x float64) {
	sum := d.high + x
	part := sum - d.high
	d.low += (d.high - (sum - part)) + (x - part)
	d.high = sum
}

// addProduct adds the product of a and b.
func (d *double) addProduct(a, b float64) {
	p := float64(a * b)
	d.add(p)
	d.low += math.FMA(a, b, -p)
}

func (d *double) exact() *big.Float {
	x := new(big.Float).SetPrec(256).SetFloat64(d.high)
	return x.Add(x, new(big.Float).SetFloat64(d.low))
}

// deviationOf returns the standard deviation of n numbers, given their sum and the sum of their squares.
func deviationOf(n int64, sum, squares *double) float64 {
	if n == 0 {
		return 0
	}
	count, total := new(big.Float).SetPrec(256).SetInt64(n), sum.exact()
	spread := new(big.Float).SetPrec(256).Mul(count, squares.exact())
	spread.Sub(spread, total.Mul(total, total))
	spread.Quo(spread, count.Mul(count, count))
	variance, _ := spread.Float64()
	return math.Sqrt(max(variance, 0))
}
