package timing

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// Ties go to the even nanosecond. A tie is decided by the exact binary value, not by a rounded product.
func TestFromSeconds(t *testing.T) {
	for _, c := range []struct {
		seconds float64
		want    Nanos
	}{
		{0, Nanos{}},
		{math.Copysign(0, -1), Nanos{}},
		{math.SmallestNonzeroFloat64, Nanos{}},
		{0x1p-1022, Nanos{}},
		{0.9765625 / 1000, Nanos{0, 976562}},
		{2.9296875 / 1000, Nanos{0, 2929688}},
		{4.8828125 / 1000, Nanos{0, 4882812}},
		{0x1p-10, Nanos{0, 976562}},      // 976562.5: a tie, down to even
		{3 * 0x1p-10, Nanos{0, 2929688}}, // 2929687.5: a tie, up to even
		{0x1p-30, Nanos{0, 1}},           // 0.93 ns
		{0x1p-32, Nanos{0, 0}},           // 0.23 ns
		{1 - 0x1p-53, Nanos{1, 0}},       // rounds up into the next second
		{4e9 - 0x1p-21, Nanos{4e9 - 1, 999999523}},
		{1.5, Nanos{1, 500000000}},
		{0x1p63, Nanos{1 << 63, 0}},
		{0x1p64 - 2048, Nanos{math.MaxUint64 - 2047, 0}},
	} {
		got, err := FromSeconds(c.seconds)
		if err != nil || got != c.want {
			t.Errorf("FromSeconds(%v) = %v, %v, want %v", c.seconds, got, err, c.want)
		}
	}
	for _, bad := range []float64{math.NaN(), -1e-300, -1, 0x1p64, math.Inf(1), math.Inf(-1)} {
		if got, err := FromSeconds(bad); err == nil {
			t.Errorf("FromSeconds(%v) = %v, want an error", bad, got)
		}
	}
}

// Random values of every magnitude are compared with exact rational arithmetic.
func TestFromSecondsIsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	ties := 0
	for range 20000 {
		x := math.Ldexp(1+rng.Float64(), rng.IntN(130)-66)
		if rng.IntN(3) == 0 { // few bits, to produce ties
			x = math.Ldexp(float64(1+rng.IntN(1<<12)), -rng.IntN(24))
		}
		if x >= 0x1p64 {
			continue
		}
		want, tie := roundedNanos(x)
		if tie {
			ties++
		}
		got, err := FromSeconds(x)
		if err != nil {
			t.Fatalf("FromSeconds(%v): %v", x, err)
		}
		total := new(big.Int).Mul(new(big.Int).SetUint64(got.Sec), big.NewInt(nanosPerSecond))
		total.Add(total, big.NewInt(int64(got.Nano)))
		if total.Cmp(want) != 0 || got.Nano >= nanosPerSecond {
			t.Fatalf("FromSeconds(%v) = %v, want %v ns", x, got, want)
		}
	}
	if ties < 100 {
		t.Errorf("%d ties met, want at least 100", ties)
	}
}

// Short durations are exact, also near ties.
func TestFromSecondsOfShortTimes(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200_000 {
		half := float64(rng.Uint64N(2<<uint(rng.IntN(40)))) / 2 // nanoseconds
		x := half / 1e9
		for range rng.IntN(3) {
			x = math.Nextafter(x, float64(rng.IntN(2))*2000)
		}
		got, err := FromSeconds(x)
		want, _ := roundedNanos(x)
		if total := int64(got.Sec)*nanosPerSecond + int64(got.Nano); err != nil || total != want.Int64() {
			t.Fatalf("FromSeconds(%v) = %v, %v, want %v ns", x, got, err, want)
		}
	}
}

// Without a speed-up, the duration of a pass is its time rounded to nanoseconds. With a speed-up, the duration is the
// quotient, rounded again.
func TestScaledTimes(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 200_000 {
		ms := math.Ldexp(rng.Float64(), rng.IntN(30)-14)
		if rng.IntN(2) == 0 {
			ms = float64(rng.IntN(1<<20)) / 1024 / 1024 * 1000 // often ties of nanoseconds
		}
		whole, err := FromSeconds(ms / 1000)
		if err != nil {
			t.Fatal(err)
		}
		want := float64(whole.Seconds() * 1000)
		for _, factor := range []float64{0, 1} {
			if got, err := scaleTime(ms, factor); got != want || err != nil {
				t.Fatalf("%v ms by %v: %v, %v, want %v", ms, factor, got, err, want)
			}
		}
		factor := math.Ldexp(1+rng.Float64(), rng.IntN(9)-4)
		divided, err := FromSeconds(whole.Seconds() / factor)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := scaleTime(ms, factor); got != float64(divided.Seconds()*1000) || err != nil {
			t.Fatalf("%v ms by %v: %v, %v, want %v", ms, factor, got, err, divided)
		}
	}
	for _, bad := range []float64{-1, math.NaN(), math.Inf(1), 0x1p80} {
		if got, err := scaleTime(bad, 1); err == nil {
			t.Errorf("%v ms: %v, want an error", bad, got)
		}
	}
}

// A speed-up of 1 leaves durations unchanged, for each way to set it.
func TestSpeedupOfOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 200_000 {
		d := Nanos{rng.Uint64N(1 << uint(rng.IntN(21))), uint32(rng.IntN(nanosPerSecond))}
		if got, err := FromSeconds(d.Seconds()); err != nil || got != d {
			t.Fatalf("%v is %v again, %v", d, got, err)
		}
	}
}

// roundedNanos returns x·10^9 rounded to nearest, ties to even, and whether it was a tie.
func roundedNanos(x float64) (*big.Int, bool) {
	exact := new(big.Rat).SetFloat64(x)
	exact.Mul(exact, big.NewRat(nanosPerSecond, 1))
	floor := new(big.Int).Quo(exact.Num(), exact.Denom())
	rest := new(big.Rat).Sub(exact, new(big.Rat).SetInt(floor))
	switch rest.Cmp(big.NewRat(1, 2)) {
	case 1:
		floor.Add(floor, big.NewInt(1))
	case 0:
		floor.Add(floor, new(big.Int).And(floor, big.NewInt(1)))
		return floor, true
	}
	return floor, false
}

func TestSecondsIsASumOfTwoTerms(t *testing.T) {
	for _, c := range []struct {
		nanos Nanos
		want  float64
	}{
		{Nanos{}, 0},
		{Nanos{0, 32105859}, 32105859.0 / 1e9},
		{Nanos{5, 744834420}, 5 + 744834420.0/1e9},
		{Nanos{1 << 63, 999999999}, 0x1p63},
	} {
		if got := c.nanos.Seconds(); got != c.want {
			t.Errorf("%v.Seconds() = %v, want %v", c.nanos, got, c.want)
		}
	}
}
