package optables

import (
	"math"
	"math/bits"
)

// binaryLog returns the binary logarithm of x > 0. Unlike the function of package math, it returns the same bits on
// every processor.
func binaryLog(x float64) float64 {
	f, exp := math.Frexp(x)
	if f < math.Sqrt2/2 {
		f *= 2
		exp--
	}
	// ln f = 2 artanh z with z in ±0.172, where the 13th term is below 2^-60.
	z := (f - 1) / (f + 1)
	square, sum := z*z, 0.0
	for n := 25; n >= 1; n -= 2 {
		sum = float64(sum*square) + 1/float64(n)
	}
	return float64(float64(2*z*sum)*math.Log2E) + float64(exp)
}

// roughLog returns an approximate binary logarithm: exact for powers of 2 and linear between them.
func roughLog(n int) float64 {
	x := uint64(max(n, 1))
	exp := bits.Len64(x) - 1
	return float64(exp-1) + float64(x)/float64(uint64(1)<<exp)
}
