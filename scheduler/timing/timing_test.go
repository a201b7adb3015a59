package timing

import (
	"math"
	"testing"
)

func TestPolynomial(t *testing.T) {
	for _, c := range []struct {
		tokens int
		ms     float64
		nanos  uint32
	}{
		{1, 16.5166038609989, 16516604},
		{4, 16.5621604959824, 16562160},
		{16, 16.7444628157184, 16744463},
		{1000, 32.1058589, 32105859},
		{8192, 169.1369184042496, 169136918},
	} {
		ms := Polynomial{}.Prefill(1, c.tokens, 0)
		if n, err := FromSeconds(ms / 1000); err != nil || ms != c.ms || n != (Nanos{Nano: c.nanos}) {
			t.Errorf("Prefill of %d tokens = %v ms, %v, %v, want %v ms, %d ns", c.tokens, ms, n, err, c.ms, c.nanos)
		}
		if split := (Polynomial{}).Prefill(c.tokens, 12, 11); split != ms {
			t.Errorf("Prefill of %d times one token = %v ms, want %v", c.tokens, split, ms)
		}
	}
	if ms := (Polynomial{}).Prefill(1, 100000, 0); ms != 5744.83442 {
		t.Errorf("Prefill of 100000 tokens = %v ms, want 5744.83442", ms)
	}
	if ms := (Polynomial{}).Prefill(3, 5, 7); ms != 16.50142 {
		t.Errorf("Prefill with more cached than there is = %v ms, want that of 0 tokens, 16.50142", ms)
	}
	for _, c := range []struct {
		active, capacity int
		ms               float64
		nanos            uint32
	}{
		{0, 16, 5.74, 5740000},
		{16, 65536, 5.753184500932694, 5753185},
		{20, 65536, 5.756480146721006, 5756480},
		{1024, 8388608, 5.746592634022236, 5746593},
		{576, 640, 33.4996, 33499600},
		{1, 1, 34.01, 34010000},
		{0, 0, 34.01, 34010000},
	} {
		ms := Polynomial{}.Decode(1, c.active, 1, c.capacity)
		if n, err := FromSeconds(ms / 1000); err != nil || ms != c.ms || n != (Nanos{Nano: c.nanos}) {
			t.Errorf("Decode at %d of %d = %v ms, %v, %v, want %v ms, %d ns", c.active, c.capacity, ms, n, err, c.ms, c.nanos)
		}
	}
}

// constant predicts the same times for all arguments.
type constant struct{ prefill, decode float64 }

func (c constant) Prefill(int, int, int) float64     { return c.prefill }
func (c constant) Decode(int, int, int, int) float64 { return c.decode }
func (constant) ByContext() bool                     { return false }

// The nanoseconds of the worked timings are computed with 64 tokens per block and 16384 blocks.
func TestClock(t *testing.T) {
	c := Clock{Model: Polynomial{}, Speedup: 1, DecodeSpeedup: 1}
	for tokens, nanos := range map[int]float64{
		64: 17474885, 100: 18023974, 128: 18451798, 192: 19432160, 200: 19554948, 1000: 32105859,
	} {
		if ms, err := c.Prefill(1, tokens, 0); err != nil || ms != nanos/1e9*1000 {
			t.Errorf("prefill of %d tokens takes %v ms, %v, want %v ns", tokens, ms, err, nanos)
		}
	}
	for blocks, nanos := range map[int]float64{
		1: 5743296, 2: 5746593, 3: 5749889, 4: 5753185, 5: 5756480, 6: 5759776,
	} {
		if ms, err := c.Decode(1, blocks*64, 100, 16384*64); err != nil || ms != nanos/1e9*1000 {
			t.Errorf("decode with %d blocks takes %v ms, %v, want %v ns", blocks, ms, err, nanos)
		}
	}
}

// A speed-up divides whole nanoseconds and rounds again; 0 leaves times unchanged.
func TestClockSpeedup(t *testing.T) {
	for _, c := range []struct {
		speedup, decode         float64
		prefillNanos, stepNanos float64
	}{
		{1, 1, 16744463, 5753185},
		{3, 2, 5581488, 958864},
		{3, 0, 5581488, 5753185},
		{0, 2, 16744463, 5753185},
		{1e300, 1, 0, 0},
	} {
		clock := Clock{Model: Polynomial{}, Speedup: c.speedup, DecodeSpeedup: c.decode}
		prefill, err := clock.Prefill(1, 16, 0)
		if err != nil || prefill != c.prefillNanos/1e9*1000 {
			t.Errorf("speed-ups %v, %v: prefill takes %v ms, %v, want %v ns", c.speedup, c.decode, prefill, err, c.prefillNanos)
		}
		step, err := clock.Decode(1, 16, 16, 65536)
		if err != nil || step != c.stepNanos/1e9*1000 {
			t.Errorf("speed-ups %v, %v: decode takes %v ms, %v, want %v ns", c.speedup, c.decode, step, err, c.stepNanos)
		}
	}
	slow := Clock{Model: Polynomial{}, Speedup: 1e-300, DecodeSpeedup: 1}
	if ms, err := slow.Prefill(1, 16, 0); err == nil {
		t.Errorf("speed-up 1e-300: prefill takes %v ms, want an error", ms)
	}
	odd := Clock{Model: constant{math.NaN(), math.Inf(1)}, Speedup: 1, DecodeSpeedup: 1}
	if ms, err := odd.Prefill(1, 1, 0); err == nil {
		t.Errorf("a model that says NaN: %v ms, want an error", ms)
	}
	if ms, err := odd.Decode(1, 1, 1, 1); err == nil {
		t.Errorf("a model that says +Inf: %v ms, want an error", ms)
	}
	idle := Clock{Model: constant{0, 1}, Speedup: 1e-300}
	if ms, err := idle.Prefill(1, 1, 0); err != nil || ms != 0 {
		t.Errorf("no time slowed down takes %v ms, %v, want 0", ms, err)
	}
}

func TestByContext(t *testing.T) {
	if (Polynomial{}).ByContext() || !(&Table{}).ByContext() || !(&Parameters{}).ByContext() {
		t.Error("only the polynomial ignores the context")
	}
}
