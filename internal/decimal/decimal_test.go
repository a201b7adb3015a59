package decimal

import (
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"
)

// Comments name the correctly rounded value where Parse returns a different value.
func TestParse(t *testing.T) {
	for _, c := range []struct {
		text string
		want float64
		ok   bool
	}{
		{"0", 0, true},
		{"-12", -12, true},
		{"0.3", 0.3, true},
		{"1E+2", 100, true},
		{"1928.4445845629277", 1928.4445845629275, true},
		{"-0.74391500080636083", -0.7439150008063607, true}, // nearest: …609
		{"0.09397298063513969", 0.09397298063513967, true},  // nearest: …969
		{"0.3000000000000000444", 0.30000000000000004, true},
		{"18446744073709551616", 18446744073709551616, true},
		{"18446744073709551619.00000", 18446744073709551616, true}, // one digit is dropped, and later digits are ignored
		{"1.7976931348623157e308", math.MaxFloat64, true},
		{"1e-320", 1e-320, true},
		{"1e-99999999999999999999", 0, true},
		{"0e99999999999999999999", 0, true},
		{"1e99999999999999999999", 0, false},
		{"1e400", 0, false},
		{"17.98e307", 0, false},
		{"", 0, false},
		{"-", 0, false},
		{"null", 0, false},
		{`"1"`, 0, false},
	} {
		got, ok := Parse(c.text)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%s is %v, %t; want %v, %t", c.text, got, ok, c.want, c.ok)
		}
	}
	if f, ok := Parse("-0.0"); !ok || !math.Signbit(f) {
		t.Errorf("-0.0 is %v, %t", f, ok)
	}
}

// Parse has an error of at most three roundings for all numbers.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"1", "-2.5e3", "123456789012345678901234567890.5", "0.1e-300", "9007199254740993", "1e23"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want, err := strconv.ParseFloat(text, 64)
		if err != nil || strings.Trim(text, "0123456789.eE+-") != "" || !json.Valid([]byte(text)) {
			return
		}
		got, ok := Parse(text)
		if !ok {
			if math.Abs(want) < 1e308 {
				t.Errorf("%s is refused", text)
			}
			return
		}
		if math.Abs(got-want) > math.Abs(want)*4e-16+1e-323 {
			t.Errorf("%s is %v, want about %v", text, got, want)
		}
	})
}

// powerOfTen returns the nearest float64.
func TestPowersOfTen(t *testing.T) {
	power := big.NewInt(1)
	for n := range 309 {
		want, _ := new(big.Float).SetInt(power).Float64()
		if got := powerOfTen(n); got != want {
			t.Errorf("10^%d is %v, want %v", n, got, want)
		}
		power.Mul(power, big.NewInt(10))
	}
}
