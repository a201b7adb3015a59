package measured

import (
	"math"
	"slices"
)

// MeanOf returns the mean of the values that are not NaN.
func MeanOf(values []float64) float64 {
	sum, n := 0.0, 0
	for _, v := range values {
		if !math.IsNaN(v) {
			sum += v
			n++
		}
	}
	return sum / float64(n)
}

// QuantileOf returns the quantile q of the values that are not NaN, with linear interpolation.
func QuantileOf(values []float64, q float64) float64 {
	var known []float64
	for _, v := range values {
		if !math.IsNaN(v) {
			known = append(known, v)
		}
	}
	if len(known) == 0 {
		return math.NaN()
	}
	slices.Sort(known)
	at := q * float64(len(known)-1)
	i := int(at)
	if i+1 == len(known) {
		return known[i]
	}
	return known[i] + float64((at-float64(i))*(known[i+1]-known[i]))
}
