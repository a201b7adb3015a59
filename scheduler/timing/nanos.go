package timing

import (
	"fmt"
	"math"
	"math/bits"
)

// Nanos is a duration of whole nanoseconds.
type Nanos struct {
	Sec  uint64
	Nano uint32 // below 10^9
}

const nanosPerSecond = 1_000_000_000

// FromSeconds rounds x seconds to whole nanoseconds: to nearest, ties to even,
// of the exact binary value of x times 10^9. It fails for NaN, negative values
// and 2^64 seconds or more.
func FromSeconds(x float64) (Nanos, error) {
	if x >= 0 && x < shortSeconds {
		// The product is off by 2^-14 at most: that matters near ties only.
		product := float64(x * nanosPerSecond)
		n := int64(product)
		if rest := product - float64(n); rest < 0.49 {
			return splitNanos(uint64(n)), nil
		} else if rest > 0.51 {
			return splitNanos(uint64(n) + 1), nil
		}
	}
	return fromSeconds(x)
}

// shortSeconds is a duration whose nanoseconds fit in 40 bits.
const shortSeconds = 1000

// splitNanos returns n nanoseconds as seconds and nanoseconds.
func splitNanos(n uint64) Nanos {
	if n < nanosPerSecond {
		return Nanos{Nano: uint32(n)}
	}
	return Nanos{Sec: n / nanosPerSecond, Nano: uint32(n % nanosPerSecond)}
}

// fromSeconds does what FromSeconds does for any x, in whole numbers.
func fromSeconds(x float64) (Nanos, error) {
	if !(x >= 0 && x < 0x1p64) {
		return Nanos{}, fmt.Errorf("a duration of %v s, want one from 0 to below 2^64 s", x)
	}
	b := math.Float64bits(x)
	exp := int(b>>52) & 0x7ff
	m := b & (1<<52 - 1)
	if exp == 0 {
		return Nanos{}, nil // below 2^-1022 s
	}
	m |= 1 << 52
	shift := exp - 1075 // x = m·2^shift
	if shift >= 0 {
		return Nanos{Sec: m << shift}, nil
	}
	s := uint(-shift)
	var sec, frac uint64 // x = sec + frac·2^-s
	if s < 64 {
		sec, frac = m>>s, m&(1<<s-1)
	} else {
		frac = m
	}
	hi, lo := bits.Mul64(frac, nanosPerSecond)
	n := roundShift(hi, lo, s)
	if n == nanosPerSecond {
		return Nanos{Sec: sec + 1}, nil
	}
	return Nanos{Sec: sec, Nano: uint32(n)}, nil
}

// roundShift returns (hi·2^64 + lo) / 2^s, to nearest, ties to even. The quotient
// fits in 64 bits.
func roundShift(hi, lo uint64, s uint) uint64 {
	if s >= 128 {
		return 0 // the product is below 2^83
	}
	var q, restHi, restLo uint64
	if s < 64 {
		q = hi<<(64-s) | lo>>s
		restLo = lo & (1<<s - 1)
	} else {
		q = hi >> (s - 64)
		restHi, restLo = hi&(1<<(s-64)-1), lo
	}
	var halfHi, halfLo uint64
	if s <= 64 {
		halfLo = 1 << (s - 1)
	} else {
		halfHi = 1 << (s - 65)
	}
	switch {
	case restHi > halfHi || restHi == halfHi && restLo > halfLo:
		return q + 1
	case restHi == halfHi && restLo == halfLo:
		return q + q&1
	}
	return q
}

// Seconds returns the duration as a float64, the sum of two terms.
func (t Nanos) Seconds() float64 {
	return float64(t.Sec) + float64(float64(t.Nano)/1e9)
}
