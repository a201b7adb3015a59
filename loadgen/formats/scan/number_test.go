package scan

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/replay-llm/replay/sim"
)

func readNumber(text string, compat bool) (float64, error) {
	s := Scanner{Compat: compat}
	s.Reset([]byte(text))
	f, err := s.readFloat()
	if err == nil {
		err = s.CheckEnd()
	}
	return f, err
}

func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		text          string
		plain, compat string // results formatted by strconv; "" means an error
	}{
		{"0", "0", "0"},
		{"-0", "-0", "-0"},
		{"-0.0", "-0", "-0"},
		{"42", "42", "42"},
		{"1928.4445845629277", "1928.4445845629277", "1928.4445845629275"},
		{"18446744073709551615", "1.8446744073709552e+19", "1.8446744073709552e+19"},
		{"18446744073709551616", "1.8446744073709552e+19", "1.8446744073709552e+19"}, // the last digit is ignored
		{"184467440737095516150", "1.844674407370955e+20", "1.844674407370955e+20"},
		{"9007199254740993", "9.007199254740992e+15", "9.007199254740992e+15"},
		{"0.1", "0.1", "0.1"},
		{"0.30000000000000004", "0.30000000000000004", "0.30000000000000004"},
		{"1e22", "1e+22", "1e+22"},
		{"1e23", "1e+23", "1e+23"},
		{"1.5E+3", "1500", "1500"},
		{"150e-2", "1.5", "1.5"},
		{"1e308", "1e+308", "1e+308"},
		{"17e307", "1.7e+308", "1.7e+308"},
		{"1.8e308", "", ""},
		{"0.000000000000000000001e329", "1e+308", "1e+308"},
		{"1e309", "", ""},
		{"0.1e309", "1e+308", "1e+308"},
		{"0e309", "0", "0"},
		{"0.0e99999999999999999999999", "0", "0"},
		{"1e99999999999999999999999", "", ""},
		{"5e-324", "5e-324", "5e-324"},
		{"2e-324", "0", "0"},
		{"1e-320", "1e-320", "1e-320"},
		{"1e-999", "0", "0"},
		{"1e-99999999999999999999999", "0", "0"},
		{"123456789012345678901234567890", "1.2345678901234568e+29", "1.2345678901234568e+29"},
		{"0.1234567890123456789012345", "0.12345678901234568", "0.12345678901234568"},
	} {
		for _, compat := range []bool{false, true} {
			want := c.plain
			if compat {
				want = c.compat
			}
			got := ""
			if f, err := readNumber(c.text, compat); err == nil {
				got = strconv.FormatFloat(f, 'g', -1, 64)
			}
			if got != want {
				t.Errorf("%s, compat %v: %q, want %q", c.text, compat, got, want)
			}
		}
	}
}

// Random decimals have the same value as with strconv. In compat mode, the value equals that of roughly.
func TestNumbersAgree(t *testing.T) {
	random := sim.NewRand(1, "numbers")
	differ := 0
	for range 30000 {
		var b strings.Builder
		if random.IntN(4) == 0 {
			b.WriteByte('-')
		}
		fmt.Fprint(&b, random.Uint64()>>random.IntN(64))
		if random.IntN(3) > 0 {
			b.WriteByte('.')
			for range 1 + random.IntN(22) {
				b.WriteByte(byte('0' + random.IntN(10)))
			}
		}
		if random.IntN(4) == 0 {
			fmt.Fprintf(&b, "e%d", random.IntN(660)-330)
		}
		text := b.String()
		want, wantErr := strconv.ParseFloat(text, 64)
		got, err := readNumber(text, false)
		if (err == nil) != (wantErr == nil) || err == nil && math.Float64bits(got) != math.Float64bits(want) {
			t.Fatalf("%s: %v %v, want %v %v", text, got, err, want, wantErr)
		}
		rough, ok := roughly(text)
		compat, err := readNumber(text, true)
		if (err == nil) != ok || ok && math.Float64bits(compat) != math.Float64bits(rough) {
			t.Fatalf("%s, compat: %v %v, want %v %v", text, compat, err, rough, ok)
		}
		if err == nil && compat != got {
			differ++
		}
	}
	if differ < 1000 {
		t.Errorf("only %d of 30000 decimals differ in compat mode", differ)
	}
}

// roughly converts a number like the reference, with integers of unlimited size.
func roughly(text string) (float64, bool) {
	sign := 1.0
	if text[0] == '-' {
		sign, text = -1, text[1:]
	}
	mantissa, exponent, _ := strings.Cut(text, "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	written, _ := strconv.Atoi(exponent)
	limit := new(big.Int).SetUint64(math.MaxUint64)
	s, e := new(big.Int), 0
	take := func(c rune) bool {
		n := new(big.Int).Mul(s, big.NewInt(10))
		n.Add(n, big.NewInt(int64(c-'0')))
		if n.Cmp(limit) > 0 {
			return false
		}
		s = n
		return true
	}
	dropped := false
	for _, c := range whole {
		if dropped = dropped || !take(c); dropped {
			e++
		}
	}
	dropped = false
	for _, c := range fraction {
		if dropped = dropped || !take(c); !dropped {
			e--
		}
	}
	e += written
	f := float64(s.Uint64())
	for e < -308 && f != 0 {
		f, e = f/1e308, e+308
	}
	power, err := strconv.ParseFloat(fmt.Sprintf("1e%d", max(e, -e)), 64)
	switch {
	case f == 0:
		return sign * 0, true
	case err != nil:
		return 0, false
	case e >= 0:
		f *= power
	default:
		f /= power
	}
	return sign * f, !math.IsInf(f, 0)
}
