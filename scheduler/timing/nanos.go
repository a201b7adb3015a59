package timing

import (
	"fmt"
	"math"
)

// Nanos is a duration in whole nanoseconds.
type Nanos struct {
	Sec  uint64
	Nano uint32 // below 10^9
}

const (
	nanosPerSecond = 1_000_000_000
	nanosPerMs     = 1_000_000
)

// FromSeconds rounds the exact binary value of x times 10^9 to whole nanoseconds, to nearest, ties to even.
// FromSeconds returns an error for NaN, negative values and 2^64 seconds or more.
func FromSeconds(x float64) (Nanos, error) {
	if !(x >= 0 && x < 0x1p64) {
		return Nanos{}, fmt.Errorf("a duration of %v s, expected one from 0 to below 2^64 s", x)
	}
	sec := uint64(x)
	fraction := x - float64(sec) // exact, like the next two lines together
	product := float64(fraction * nanosPerSecond)
	off := math.FMA(fraction, nanosPerSecond, -product)
	nano := math.RoundToEven(product)
	// The rounding error of the product matters only for a tie.
	if rest := product - nano; rest == 0.5 && off > 0 {
		nano++
	} else if rest == -0.5 && off < 0 {
		nano--
	}
	if nano == nanosPerSecond {
		return Nanos{Sec: sec + 1}, nil
	}
	return Nanos{Sec: sec, Nano: uint32(nano)}, nil
}

// Seconds returns the duration as a float64, the sum of two terms.
func (t Nanos) Seconds() float64 {
	return float64(t.Sec) + float64(float64(t.Nano)/1e9)
}
