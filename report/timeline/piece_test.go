package timeline

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

// Numbers are written as strconv writes them.
func TestNumbers(t *testing.T) {
	room := func() []byte { return append(make([]byte, 0, 100), "x"...) }
	check := func(got []byte, want string) {
		t.Helper()
		if string(got) != "x"+want {
			t.Errorf("%s, want x%s", got, want)
		}
	}
	rng := rand.New(rand.NewPCG(3, 4))
	numbers := []uint64{0, 1, 9, math.MaxInt64, math.MaxUint64}
	for p := uint64(10); p < 1e19; p *= 10 {
		numbers = append(numbers, p-1, p, p+1)
	}
	for range 5000 {
		numbers = append(numbers, rng.Uint64()>>rng.IntN(64))
	}
	for _, n := range numbers {
		check(appendDigits(room(), n), strconv.FormatUint(n, 10))
		check(appendInteger(room(), int(n)), strconv.Itoa(int(n)))
		ns := int64(n >> 12)
		check(appendInstant(room(), ns), strconv.FormatFloat(float64(ns/1000), 'f', 0, 64)+"."+strconv.Itoa(int(1000 + ns%1000))[1:])
		for _, v := range []float64{float64(n), float64(n>>32) / 256, math.Float64frombits(n), rng.Float64() * 300} {
			if whole := v >= 0 && v < 1<<53 && math.Trunc(v) == v; whole {
				check(appendFloat(room(), v), strconv.FormatFloat(v, 'f', -1, 64))
			} else if !math.IsNaN(v) && !math.IsInf(v, 0) {
				check(appendFloat(room(), v), strconv.FormatFloat(v, 'g', -1, 64))
			}
		}
	}
	check(appendInstant(room(), -1_234_567), "-1234.567")
}

// A piece is what it was made of, and nothing longer can be made.
func TestPieces(t *testing.T) {
	long := string(make([]byte, 64))
	for _, text := range []string{"", "a", `,"ts":`, long} {
		p := newPiece(text)
		if got := string(putPiece(append(make([]byte, 0, 100), '<'), &p)); got != "<"+text {
			t.Errorf("%q, want %q", got, "<"+text)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a text of 65 bytes is a piece, want a panic")
		}
	}()
	newPiece(long + "x")
}

// The tracks of all workers there can be have names that fit.
func TestTracksFit(t *testing.T) {
	newTrack(pidDecode + math.MaxInt32)
}
