package collector

import (
	"math"
	"math/big"
)

// SketchError is how far a sketched quantile is from the value at its rank, at most, as a share of that value. Buckets
// are 1/bucketParts of the power of two below them, and their middle represents their values.
const SketchError = 1.0 / (2 * bucketParts)

// sketch counts values >= 0 by their leading bits. Two sketches are joined by adding their counts, and
// are the same on every machine.
type sketch struct {
	zeros  int64
	first  int     // bucket of the first count
	counts []int64 // by bucket
}

// sketchShift is the number of bits of a float64 that its bucket drops.
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

// widen makes room for a bucket at distance at from the first, and returns its new distance.
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

// values returns the middles of the buckets with what they count, between two bounds.
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

// double is a number as the sum of two float64s; the second has the rounding error of the first.
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

// deviationOf returns the standard deviation of n numbers by their sum and that of their squares.
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
